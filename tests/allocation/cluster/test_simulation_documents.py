"""What a program reads of a simulation."""

from __future__ import annotations

from typing import Any

from dray.allocation.cluster.simulate import simulate
from dray.allocation.cluster.simulation_documents import simulation_document
from dray.allocation.cluster.workloads import all_pending
from tests.allocation.dumps import claims, situation, slices
from tests.allocation.world import claim, devices, piece, request


def document(number: int) -> dict[str, Any]:
    """So many claims for two devices each, where there are five."""
    one = situation(slices(piece(*devices("a", "b", "c", "d", "e"))), claims(claim(request(2))))
    found = simulate(one, all_pending(one.cluster), one.cluster.nodes, number)
    return simulation_document(found, one, "first-fit")


def test_where_nothing_runs_out() -> None:
    got = document(2)
    assert (got["policy"], got["asked"], got["fits"], got["error"]) == ("first-fit", 2, 2, None)
    assert got["nodes"] == [{"node": "node-1", "fits": 2, "shortage": None}]
    assert got["runsOutFirst"] is None


def test_what_runs_out() -> None:
    got = document(3)
    shortage = {
        "claim": "default/claim-0",
        "request": "req-0",
        "wanted": 2,
        "left": 1,
        "check": "in use",
        "removed": 4,
        "text": "request req-0 wants 2, 1 left: 4 in use",
    }
    assert (got["asked"], got["fits"]) == (3, 2)
    assert got["nodes"] == [{"node": "node-1", "fits": 2, "shortage": shortage}]
    assert got["runsOutFirst"] == {"node": "node-1", **shortage}
