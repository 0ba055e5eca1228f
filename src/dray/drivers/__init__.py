"""Device kinds: each finds its devices among the facts of `hardware/`. Read `contract.py` first.

In: a `HostRoot` and its facts.
Out: `Device` values with health, and the problems met on the way.
Next: `inventory/`, which holds the devices of all kinds together.
"""
