"""Device plugins: what they list, who holds what, which ids a container gets."""
