"""Loops that keep a cluster's objects true: claims of pods, device taints, pods nobody runs, silent nodes; and the guard.

In: pictures of pods, claims, templates, slices, rules, nodes and leases, through `client/`.
Out: claims made, reserved, freed and deleted; pods evicted or collected; conditions and taints of nodes; events.
Next: `processes/` runs them. The scheduler allocates and the kubelet prepares what these loops make and free.
"""
