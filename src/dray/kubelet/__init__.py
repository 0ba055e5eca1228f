"""The kubelet's side: a pod on this node gets its devices, and its containers run with them.

In: pods, device plugins and DRA drivers that register.
Out: checkpointed grants, running containers, the node's status.
Next: whoever reads the API server, or pod resources.
"""
