"""What is special about single kinds when they are written: defaults, rules that look at other objects, subresources."""
