"""What a write does to the store: sync decisions over a `Transaction`, one file for each verb.

The doors are `create`, `update`, `removing.delete`, `removing.collection`, `removing.eviction` and `kinds.binding`; each
takes a `Write` (what is asked, of which kind, when) and returns `Written`. They raise errors with the API server's texts and leave the transaction as it
was where they do. `indexes` names the store's indexes that they need.
"""

from __future__ import annotations

from dray.apiserver.store.contract import Index
from dray.apiserver.writing.kinds.allocations import DEVICES, POOLS
from dray.apiserver.writing.removing.dependents import OWNERS


def indexes() -> tuple[Index, ...]:
    """What a store must be opened with for these writes to work."""
    return (DEVICES, POOLS, OWNERS)
