"""Who asks and what they may: tokens, roles, and the server's own certificates."""
