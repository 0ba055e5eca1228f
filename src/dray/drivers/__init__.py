"""Device kinds: each finds its devices among the facts of `hardware/`, and says what a container needs to use them.

In: a `HostRoot` and its facts; a config for each kind. Read `contract.py` first.
Out: `Device` values with health, and `Prepared(edits, changes)` for those that were allocated.
Next: `inventory/`, which holds the devices of all kinds together.
"""
