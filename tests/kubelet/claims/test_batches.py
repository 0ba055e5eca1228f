from __future__ import annotations

from dray.kubelet.claims.batches import by_driver, succeeded
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.wire.gen.dra_v1_pb2 import NodeUnprepareResourceResponse

A, B = ClaimInfo("ns", "a", "1"), ClaimInfo("ns", "b", "2")


def test_claims_by_driver() -> None:
    batches = by_driver([(B, ["y", "x"]), (A, ["x"]), (B, ["x"])])
    assert list(batches.items()) == [("x", (B, A)), ("y", (B,))]
    assert by_driver([]) == {}


def test_good_results() -> None:
    results = {"1": NodeUnprepareResourceResponse(error="no"), "2": NodeUnprepareResourceResponse()}
    assert succeeded([A, B], results) == (B,)
    assert succeeded([A, B], {}) == ()
