from __future__ import annotations

import pytest

from dray.allocation.cluster.simulate import Simulation, simulate
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import all_pending
from dray.allocation.explanation.refusal import Check
from dray.allocation.faults import AllocationError
from dray.allocation.policies import Policy
from tests.allocation.dumps import claims, holding, node, situation, slices
from tests.allocation.world import Json, claim, counters, device, devices, piece, request, uses


def run(one: Situation, number: int, policy: Policy = Policy.FIRST_FIT) -> Simulation:
    return simulate(one, all_pending(one.cluster), one.cluster.nodes, number, policy)


def gpus(name: str, number: int) -> Json:
    return piece(*devices(*(f"d-{one}" for one in range(number))), name=name, pool=name, nodeName=name)


@pytest.mark.parametrize("policy", list(Policy))
def test_how_many_and_where(policy: Policy) -> None:
    one = situation(slices(gpus("n-1", 5), gpus("n-2", 2), gpus("n-3", 1)), claims(claim(request(2))))
    got = run(one, 9, policy)
    assert (got.asked, got.fits) == (9, 3)
    assert [(node.node, node.fits) for node in got.nodes] == [("n-1", 2), ("n-2", 1), ("n-3", 0)]
    assert got.nodes[0].shortage is not None and got.nodes[0].shortage.check is Check.IN_USE
    assert str(got.nodes[0].shortage) == "request req-0 wants 2, 1 left: 4 in use"
    assert got.first is not None and got.first.fits


def test_no_more_than_asked_and_nothing_runs_out() -> None:
    got = run(situation(slices(gpus("n-1", 5)), claims(claim(request()))), 3)
    assert got.fits == 3 and got.first is None
    assert [(node.fits, node.shortage) for node in got.nodes] == [(3, None)]


def test_what_is_in_use_counts() -> None:
    one = situation(slices(piece(*devices("a", "b"))), claims(claim(request()), holding("h", "a")))
    assert run(one, 5).fits == 1


def test_counters_run_out_by_name() -> None:
    made = [device(f"p-{number}", consumesCounters=uses("2")) for number in range(5)]
    one = situation(slices(piece(*made, of=2), counters(set_1={"mem": "5"})), claims(claim(request())))
    got = run(one, 9)
    assert got.fits == 2 and got.first is not None and got.first.shortage is not None
    assert (got.first.shortage.check, got.first.shortage.lacking) == (Check.COUNTERS, ("mem of set-1",))
    assert str(got.first.shortage).endswith("0 left: 3 without enough counters: mem of set-1")


def test_capacity_runs_out_by_name() -> None:
    shared = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
    wanted = claim(request(1, capacity={"requests": {"memory": "3Gi"}}))
    got = run(situation(slices(piece(shared)), claims(wanted)), 9)
    assert got.fits == 2 and got.first is not None
    assert str(got.first.shortage) == "request req-0 wants 1, 0 left: 1 without enough capacity: memory"


def test_devices_that_all_nodes_share_are_given_once() -> None:
    world = piece(*devices("a", "b"), allNodes=True)
    for policy in Policy:
        one = situation(slices(world), claims(claim(request())), node("n-1"), node("n-2"))
        assert run(one, 9, policy).fits == 2


def test_requests_that_do_not_go_together() -> None:
    made = [device(name, attributes={"numa": {"int": int(name[-1])}}) for name in ("d-0", "d-1")]
    wanted = claim(request(2), constraints=[{"matchAttribute": "driver-a/numa"}])
    got = run(situation(slices(piece(*made)), claims(wanted)), 2)
    assert str(got.nodes[0].shortage) == "request req-0 wants 2, 2 left, but not all together"


def test_progress_and_errors() -> None:
    told: list[int] = []
    one = situation(slices(gpus("n-1", 3)), claims(claim(request())))
    simulate(one, all_pending(one.cluster), one.cluster.nodes, 2, progress=told.append)
    assert told == [1, 2]
    gold = situation(slices(gpus("n-1", 3)), claims(claim(request(deviceClassName="gold"))))
    with pytest.raises(AllocationError, match="device class gold"):
        run(gold, 1)
