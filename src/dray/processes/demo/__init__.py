"""`dray demo`: what it watches, the two roads that a device can take to a container, and a claim that cannot be met."""
