"""Collections over HTTP: lists in pieces, and watches that share their encoding."""
