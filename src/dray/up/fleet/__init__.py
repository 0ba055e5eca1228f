"""A hollow fleet: the profile read, its objects, and the loops that keep nodes, leases, slices and pods."""
