"""Which test files run one after the other, and which beside each other: `make e2e` runs several processes at once.

A lane is files that share something of a session: the cluster, the guest. They run in one process, in the order of their names;
a file that is not named here is a lane of its own. Longer lanes come first, so that none is left over at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LANES: dict[str, tuple[str, ...]] = {}
_LANE_OF = {file: lane for lane, files in LANES.items() for file in files}
_ORDER = {lane: number for number, lane in enumerate(LANES)}


def lane_of(node_id: str) -> str:
    """The lane of a test, by its id."""
    name = PurePath(node_id.partition("::")[0]).stem
    return _LANE_OF.get(name, name)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Lanes one after the other, as named above; the others after them."""
    return sorted(items, key=lambda item: _ORDER.get(lane_of(item.nodeid), len(_ORDER)))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Of pytest-xdist: hands out whole lanes."""

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)
