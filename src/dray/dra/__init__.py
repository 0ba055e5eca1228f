"""The DRA door: the inventory as ResourceSlices, and claims prepared for containers.

In: `Inventory`, the kubelet's NodePrepareResources and NodeUnprepareResources, claims from the API server.
Out: ResourceSlices, CDI files and metadata files, the devices of each claim, taints and health.
Next: `cdi/` in the container runtime puts them into containers.
"""
