"""Text to a tree: tokens, literals, precedence, macros."""
