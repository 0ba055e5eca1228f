"""What is known of a cluster across decisions, kept up by events, and the fast way to the same answers."""
