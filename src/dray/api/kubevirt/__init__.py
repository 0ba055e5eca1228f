"""KubeVirt's words: its configuration as far as devices go, its feature gates, and what follows from both.

`types` has the views, `gates` evaluates the gates and lists the permanent devices, `mdev_types` says which mediated
device types a node should have, `validation` finds every fault. Facts are those of KubeVirt 1.9.
"""
