from __future__ import annotations

import pytest

from dray.errors import ProtocolError
from dray.kubelet.claims.batches import by_driver, check, succeeded
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


@pytest.mark.parametrize(
    ("results", "begins"),
    [
        ({"x" * 2**20: NodeUnprepareResourceResponse()}, "Call returned result for unknown claim UID xxx"),
        ({"1": NodeUnprepareResourceResponse(error="e" * 2**20)}, "Call failed for ResourceClaim a: eee"),
    ],
)
def test_a_driver_that_shouts_is_cut_short(
    results: dict[str, NodeUnprepareResourceResponse], begins: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        check("Call", [A], results)
    assert str(caught.value).startswith(begins)
    assert len(str(caught.value)) < 2200
