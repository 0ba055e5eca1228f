"""What runs containers: runc, CRI, plain processes."""
