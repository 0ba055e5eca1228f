from __future__ import annotations

import random
from itertools import combinations

from dray.allocation.counting import Matching, highest


def test_demands_move_where_that_helps() -> None:
    matching = Matching()
    assert matching.add(0b111, 1) and matching.add(0b110, 1) and matching.add(0b100, 1)
    assert not matching.add(0b111, 1)
    assert not Matching().add(0b11, 3)


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
        matching = Matching()
        found = all(matching.add(devices, number) for devices, number in demands)
        assert found is serves(demands), demands
        seen.add(found)
    assert seen == {True, False}
