from __future__ import annotations

from dray.allocation.allocator import Call
from dray.allocation.explanation.lacks import lacks
from tests.allocation.dumps import HOLDS, claims, holding, situation, slices
from tests.allocation.world import Json, claim, counters, device, piece, request, uses


def shown(wanted: Json, *raw: Json, held: Json | None = None, gates: str = "") -> list[list[str]]:
    """For each device what it is short of."""
    one = situation(slices(*raw), claims(wanted, *([held] if held else [])), gates=gates)
    call = Call(one.allocator, one.cluster.nodes[0], one.cluster.claims[:1])
    (asked,) = call.plan[0].requests[0]
    return [
        [str(lack) for lack in lacks(one.allocator.rules, asked, device)]
        for device in call.candidates.devices
    ]


def memory(amount: str, **policy: object) -> Json:
    return {"memory": {"value": amount, **policy}}


def test_capacity_that_is_used_or_not_there() -> None:
    world = piece(
        device("a", allowMultipleAllocations=True, capacity=memory("4Gi")),
        device("b", capacity=memory("1Gi")),
        device("c"),
        device("d", capacity=memory("2Gi")),
    )
    held = holding("h", "a", shareID=HOLDS, consumedCapacity={"memory": "3Gi"})
    asked = claim(request(1, capacity={"requests": {"memory": "2Gi"}}))
    assert shown(asked, world, held=held) == [
        ["memory: 1Gi left, 2Gi needed"],
        ["memory: 1Gi left, 2Gi needed"],
        ["memory: the device has no such capacity"],
        [],
    ]


def test_counters_that_others_draw_on() -> None:
    world = (
        piece(
            device("p-1", consumesCounters=uses("2Gi")),
            device("p-2", consumesCounters=uses("1536Mi")),
            device("whole"),
            of=2,
        ),
        counters(set_1={"mem": "3Gi"}),
    )
    assert shown(claim(request()), *world) == [[], [], []]
    assert shown(claim(request()), *world, held=holding("h", "p-1")) == [
        ["mem of set-1: 1Gi left, 2Gi needed"],
        ["mem of set-1: 1Gi left, 1536Mi needed"],
        [],
    ]


def test_amounts_do_not_count_while_their_gate_is_off() -> None:
    world = piece(device("a", capacity=memory("1Gi")))
    assert shown(claim(request()), world, gates="DRAConsumableCapacity=false") == [[]]


def test_what_a_policy_allows() -> None:
    def nic(**policy: object) -> Json:
        rate = {"value": "10", "requestPolicy": {"default": "1", **policy}}
        return device("d", allowMultipleAllocations=True, capacity={"rate": rate})

    asked = claim(request(1, capacity={"requests": {"rate": "9"}}))
    for policy, most in (
        ({"validValues": ["1", "2", "4"]}, "4"),
        ({"validRange": {"min": "1", "max": "7", "step": "2"}}, "7"),
    ):
        assert shown(asked, piece(nic(**policy))) == [[f"rate: its policy allows no more than {most}, not 9"]]
    typo = claim(request(1, capacity={"requests": {"rat": "1"}}))
    assert shown(typo, piece(nic())) == [["rat: the device has no such capacity, only rate"]]
