"""Reasons as text: what a long or an odd refusal looks like."""

from __future__ import annotations

from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.documents import reasons_document
from dray.allocation.explanation.explain import Reasons, refuse
from dray.cli.refusal_view import reasons_lines
from tests.allocation.dumps import HOLDS, claims, holding, situation, slices
from tests.allocation.world import (
    Json,
    claim,
    counters,
    device,
    devices,
    every,
    first,
    piece,
    request,
    uses,
    wish,
)


def reasons(wanted: Json, *raw: Json, held: tuple[Json, ...] = ()) -> Reasons:
    one = situation(slices(*raw), claims(wanted, *held))
    return refuse(one, workloads_of(one.cluster)[0], one.cluster.nodes)


def shown(wanted: Json, *raw: Json, held: tuple[Json, ...] = ()) -> list[str]:
    return reasons_lines(reasons(wanted, *raw, held=held), colour=False)


def test_many_holders_are_cut_short_for_people_and_whole_for_programs() -> None:
    names = [f"d-{number}" for number in range(10)]
    held = tuple(holding(f"c-{name}", name) for name in names)
    given = reasons(claim(request()), piece(*devices(*names)), held=held)
    lines = reasons_lines(given, colour=False)
    assert "  and 2 more (-o json has them all)" in lines
    assert lines[-1].endswith("driver-a/pool-1/d-3 (claim default/c-d-3); or one of 6 more")
    document = reasons_document(given, "correct", "stable")
    assert len(document["nodes"][0]["requests"][0]["heldBy"]) == 10
    assert len(document["changes"][0]["choices"]) == 10


def test_nodes_that_are_alike_are_one_line() -> None:
    raw = [piece(*devices("d"), name=f"n-{n}", pool=f"n-{n}", nodeName=f"n-{n}") for n in range(97)]
    lines = shown(claim(request(2)), *raw)
    assert lines[1].split() == ["97", "nodes", "default/claim-0", "req-0", "2", "1", "1"]
    assert lines[-1] == (
        "  on n-0 (one of 97 alike): ask for 1 device instead of 2 in request req-0 of claim default/claim-0"
    )


def test_amounts_that_are_short() -> None:
    parts = [device(f"p-{number}", consumesCounters=uses("2Gi")) for number in range(2)]
    sets = counters(set_1={"mem": "3Gi"})
    lines = shown(claim(request()), piece(*parts, of=2), sets, held=(holding("a", "p-0"),))
    assert "    counters: driver-a/pool-1/p-0 (claim default/a)" in lines
    assert "    short of mem of set-1: 1Gi left, 2Gi needed" in lines
    shared = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}})
    held = holding("a", "d", shareID=HOLDS, consumedCapacity={"memory": "3Gi"})
    lines = shown(claim(request(1, capacity={"requests": {"memory": "2Gi"}})), piece(shared), held=(held,))
    assert "    short of memory: 1Gi left, 2Gi needed" in lines


def test_all_devices_and_unusable_pools() -> None:
    lines = shown(claim(every()), piece(*devices("d"), driver="driver-b"))
    assert lines[1].split()[-5:] == ["req-0", "all", "1", "-1", "0"]
    lines = shown(claim(request()), piece(*devices("d"), of=2))
    assert "node-1: pool driver-a/pool-1 cannot be used: 1 of 2 slices of generation 1 are there" in lines
    assert lines[-1] == "No change of one thing or two was found that makes it fit."


def test_requests_that_fit_only_alone() -> None:
    made = [device(f"d-{number}", attributes={"numa": {"int": number}}) for number in range(2)]
    lines = shown(claim(request(2), constraints=[{"matchAttribute": "driver-a/numa"}]), piece(*made))
    told = "matchAttribute driver-a/numa of claim default/claim-0"
    assert lines[2:4] == [
        "node-1: enough devices are left one by one, but they do not go together",
        f"  {told}: no more than 1 of 2 devices left have the same value, 2 are wanted",
    ]
    assert "Nearest miss:" not in shown(
        claim(request(2), constraints=[{"matchAttribute": "driver-a/numa"}]),
        piece(*made),
        piece(*devices("x"), driver="driver-b", name="s2"),
    )
    both = claim(request(1), request(1, name="req-1"))
    assert shown(both, piece(*devices("d")))[3:5] == [
        "node-1: enough is left for each request alone, but not for all together",
        "  requests req-0, req-1: 2 devices are wanted, 1 left for them together",
    ]


def test_an_alternative_that_is_short_does_not_hide_one_that_fits_only_alone() -> None:
    made = [device(f"d-{number}", attributes={"numa": {"int": number}}) for number in range(2)]
    wanted = claim(first(wish(3), wish(2)), constraints=[{"matchAttribute": "driver-a/numa"}])
    assert "node-1: enough devices are left one by one" in shown(wanted, piece(*made))[3]


def test_many_counters_that_are_short_are_cut_short() -> None:
    names = [f"slice-{number}" for number in range(8)]
    takes = [{"counterSet": "set-1", "counters": {name: {"value": "1"} for name in names}}]
    card = [device(name, consumesCounters=takes) for name in ("p-0", "p-1")]
    sets = counters(set_1=dict.fromkeys(names, "1"))
    lines = shown(claim(request()), piece(*card, of=2), sets, held=(holding("a", "p-0"),))
    assert sum("short of" in line for line in lines) == 3
    assert "    and of 5 more (-o json has them all)" in lines
