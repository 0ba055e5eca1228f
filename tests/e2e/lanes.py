"""Which test files run one after the other, and which beside each other: `make e2e` runs several processes at once.

A lane is files that share something of a session: the cluster, the guest. They run in one process, in the order given
here; a file that is not named here is a lane of its own. Longer lanes come first, so that none is left over at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LANES: dict[str, tuple[str, ...]] = {
    "cluster": (
        "test_agent",
        "test_agent_kills",
        "test_bench_driver",
        "test_checkpoint_swap",
        "test_cluster",
        "test_dashboard_node",
        "test_doctor",
        "test_handed_over",
    ),
    "guest": ("test_machine", "test_machine_agent"),
    "cluster with claims": (
        "test_dra_agent",
        "test_dra_agent_check",
        "test_dra_agent_kills",
        "test_dra_agent_lives",
    ),
    "killable API server": (
        "test_agent_cluster",
        "test_control_plane",
        "test_explain_live",
        "test_kubelet",
        "test_kubelet_kills",
        "test_reflector",
        "test_validation_agrees",
    ),
    "deploy": ("test_deploy",),
    "API server": (
        "test_apply_agrees",
        "test_client",
        "test_client_more",
        "test_controllers",
        "test_guard",
        "test_kubelet_events",
        "test_kubelet_node",
        "test_openapi_agrees",
        "test_slices_agree",
        "test_status_agrees",
    ),
    "kubectl": ("test_kubectl_agrees",),
    "programs of others": ("test_foreign_programs",),
    "checks": ("test_check_peers",),
    "left behind": ("test_leftovers",),
}
_LANE_OF = {file: lane for lane, files in LANES.items() for file in files}
_ORDER = {file: number for number, file in enumerate(_LANE_OF)}


def lane_of(node_id: str) -> str:
    """The lane of a test, by its id."""
    name = _file(node_id)
    return _LANE_OF.get(name, name)


def _file(node_id: str) -> str:
    return PurePath(node_id.partition("::")[0]).stem


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Files one after the other, as named above; the others after them."""
    return sorted(items, key=lambda item: _ORDER.get(_file(item.nodeid), len(_ORDER)))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Of pytest-xdist: hands out whole lanes."""

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)
