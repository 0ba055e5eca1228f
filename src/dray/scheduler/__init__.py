"""Which pod goes to which node: the queue, the checks of nodes, the scores, and (in `claims/`) the devices.

In: pods that wait, nodes with their pods, claims and slices, all as they change.
Out: a pod bound to a node with its devices reserved, or the reasons of every node.
Next: the kubelet of that node runs the pod; `controllers/` clean up after it.
"""
