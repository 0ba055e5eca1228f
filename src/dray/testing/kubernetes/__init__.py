"""A real Kubernetes on this machine, for tests: one node on loopback, in a private directory.

In: the tool modules under `tests/e2e/tools` and Debian's packages (`install.py` builds and unpacks both).
Out: `Cluster` (a whole node) and `ControlPlane` (etcd and API server only): entered = ready, left = nothing remains.
Next: `tests/e2e` uses them as fixtures; `python -m dray.testing.kubernetes up` starts one by hand.
"""
