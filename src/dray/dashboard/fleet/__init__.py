"""What is known: the cluster's objects, followed, and the picture made of them."""
