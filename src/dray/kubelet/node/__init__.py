"""The Node object: what the machine offers, and that it is alive."""
