from __future__ import annotations

import random
from itertools import combinations

from dray.allocation.allocator import Call
from dray.allocation.budget import Budget
from dray.allocation.counting import CounterRoom, Matching, highest
from tests.allocation.world import (
    PARTITIONS,
    Json,
    case,
    claim,
    counters,
    device,
    piece,
    request,
    typed,
    uses,
)
from tests.campaign import seeds


def test_demands_move_where_that_helps() -> None:
    matching = Matching(Budget())
    assert matching.add(0b111, 1) and matching.add(0b110, 1) and matching.add(0b100, 1)
    assert not matching.add(0b111, 1)
    assert not Matching(Budget()).add(0b11, 3)


def test_who_moved_once_moves_again() -> None:
    matching = Matching(Budget())
    assert matching.add(0b111, 1) and matching.add(0b100, 1) and matching.add(0b001, 1)
    assert not matching.add(0b111, 1)


def test_highest() -> None:
    assert highest(0b10110, 2) == 0b10100
    assert highest(0b101, 5) == 0b101
    assert highest(0b101, 0) == 0


def serves(demands: list[tuple[int, int]], used: int = 0) -> bool:
    """By trying everything."""
    if not demands:
        return True
    devices, number = demands[0]
    free = [slot for slot in range(devices.bit_length()) if devices & ~used & 1 << slot]
    return any(
        serves(demands[1:], used | sum(1 << slot for slot in chosen)) for chosen in combinations(free, number)
    )


def test_as_trying_everything_says() -> None:
    dice = random.Random(7)
    seen = set()
    for _ in range(300):
        demands = [(dice.randrange(1, 256), dice.randrange(4)) for _ in range(dice.randrange(1, 5))]
        matching = Matching(Budget())
        found = all(matching.add(devices, number) for devices, number in demands)
        assert found is serves(demands), demands
        seen.add(found)
    assert seen == {True, False}


def union(demands: tuple[tuple[int, int], ...]) -> int:
    found = 0
    for devices, _ in demands:
        found |= devices
    return found


def test_as_counting_every_group_of_demands_says() -> None:
    """Hall's theorem: demands can be met together if no group of them wants more devices than it may choose from."""
    seen = set()
    for seed in seeds(400, 40_000):
        dice = random.Random(seed)
        demands = [
            (dice.randrange(256) & dice.randrange(256), dice.randrange(1, 3))
            for _ in range(dice.randrange(2, 7))
        ]
        groups = (some for size in range(1, 7) for some in combinations(demands, size))
        expected = all(sum(n for _, n in some) <= union(some).bit_count() for some in groups)
        matching = Matching(Budget())
        assert all(matching.add(devices, number) for devices, number in demands) is expected, seed
        seen.add(expected)
    assert seen == {True, False}


def test_devices_that_two_counters_keep_apart_are_lost_once() -> None:
    """Of a, b, c and d counter x has room for one, of d and e counter y: d may be among the three that x costs."""

    def takes(name: str, *names: str) -> Json:
        return device(name, consumesCounters=[one for counter in names for one in uses("1", counter)])

    made = [takes("a", "x"), takes("b", "x"), takes("c", "x"), takes("d", "x", "y"), takes("e", "y")]
    slices = [piece(*made, of=2), counters(set_1={"x": "1", "y": "1"})]
    read, allocator, _ = typed(case(slices, claim(request()), features=(PARTITIONS,)))
    call = Call(allocator, read.node, read.claims)
    room = CounterRoom(call.candidates.devices, call.ledger, Budget())
    assert (room.lost(0b01111), room.lost(0b11000), room.lost(0b10111)) == (3, 1, 2)
    assert room.lost(0b11111) == 3
