"""Which switch or feature makes two profiles disagree."""

from __future__ import annotations

from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.difference import find_causes
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36
from tests.allocation.dumps import claims, node, situation, slices
from tests.allocation.world import Json, claim, device, devices, piece, request


def causes(wanted: Json, *raw: Json) -> tuple[str, ...]:
    one = situation(slices(*raw), claims(wanted), node("node-1"))
    other = one.other()
    workload = workloads_of(one.cluster)[0]
    found = find_causes(one, other, workload, one.cluster.nodes[0])
    assert (one.profile, other.profile) == (CORRECT, KUBERNETES_1_36)
    return found


def test_a_switch() -> None:
    elsewhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gone", "operator": "Exists"}]}]}
    newer = piece(*devices("e"), name="s2", generation=2, nodeSelector=elsewhere)
    assert causes(claim(request()), piece(*devices("d")), newer) == ("own_slices_suffice",)
    nic = device("d", allowMultipleAllocations=True, capacity={"rate": {"value": "10"}})
    wanted = claim(request(1, capacity={"requests": {"driver-a/rate": "1"}}))
    assert causes(wanted, piece(nic)) == ("capacity_keys_literal",)


def test_a_feature() -> None:
    lists = [device(f"d-{n}", attributes={"numa": {"ints": [n, 7]}}) for n in range(2)]
    wanted = claim(request(2), constraints=[{"matchAttribute": "driver-a/numa"}])
    assert causes(wanted, piece(*lists)) == ("DRAListTypeAttributes",)


def test_no_difference() -> None:
    assert causes(claim(request()), piece(*devices("d"))) == ()
