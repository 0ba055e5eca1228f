from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from random import Random
from types import ModuleType
from typing import Any

import pytest

from dray.allocation import demands, fronts
from dray.allocation import packing as packing_module
from dray.allocation.allocator import Call
from dray.allocation.budget import Budget
from dray.allocation.candidates import Candidate
from dray.allocation.constraints import Distinct
from dray.allocation.demands import Want
from dray.allocation.packing import Packing
from tests.allocation.world import PARTITIONS, Json, case, device, piece, typed
from tests.campaign import campaign, seeds

CASES = campaign(120, 5_000)
KEPT = {"parent": "driver-a/parent", "size": "driver-a/size"}


def packed(slices: list[Json], **fields: Any) -> tuple[Packing, tuple[Candidate, ...], list[Distinct]]:
    read, allocator, _ = typed(case(slices, features=(PARTITIONS,), **fields), "correct")
    call = Call(allocator, read.node, ())
    apart = [Distinct((), name, lists=False) for name in KEPT.values()]
    return (
        Packing(call.candidates.devices, call.ledger, apart, Budget()),
        tuple(call.candidates.devices),
        apart,
    )


def world(dice: Random) -> list[Json]:
    """Some cards with some devices of random needs; cards are often the same but for their name."""
    number = dice.choice((1, 2, 3))
    counters = [{name: dice.randint(1, 4) for name in ("a", "b", "c")}] * number
    shapes = [[_needs(dice) for _ in range(dice.randint(2, 4))]] * number
    if dice.random() < 0.4:
        counters = [{name: dice.randint(0, 4) for name in ("a", "b", "c")} for _ in range(number)]
        shapes = [[_needs(dice) for _ in range(dice.randint(1, 4))] for _ in range(number)]
    devices = [
        device(
            f"d{card}-{place}",
            attributes={"parent": {"int": card if dice.random() < 0.5 else 10 * card + place}},
            consumesCounters=[
                {"counterSet": f"s{card}", "counters": {n: {"value": str(v)} for n, v in needs.items()}}
            ]
            if needs
            else [],
        )
        for card, some in enumerate(shapes)
        for place, needs in enumerate(some)
    ]
    sets = [
        {"name": f"s{card}", "counters": {name: {"value": str(amount)} for name, amount in one.items()}}
        for card, one in enumerate(counters)
    ]
    return [piece(*devices, of=2), piece(name="counters", of=2, sharedCounters=sets)]


def _needs(dice: Random) -> dict[str, int]:
    return {name: dice.randint(0, 3) for name in ("a", "b", "c") if dice.random() < 0.6}


def fits(
    devices: tuple[Candidate, ...],
    apart: list[Distinct],
    left: dict[Any, int],
    wanted: list[tuple[Want, ...]],
    forced: int,
) -> bool:
    """By trying everything. Devices without counters are everybody's, as the packing has it."""

    def is_free(one: Candidate) -> bool:
        return not any(amount for _, amount in one.consumes)

    def works(chosen: list[tuple[Want, tuple[Candidate, ...]]]) -> bool:
        taken = [one for _, some in chosen for one in some if not is_free(one)]
        taken += [one for one in devices if forced >> one.slot & 1]
        if len({one.slot for one in taken}) < len(taken):
            return False
        used: Counter[Any] = Counter()
        for one in taken:
            used.update(dict(one.consumes))
        if any(amount > left[key] for key, amount in used.items() if amount):
            return False
        for constraint in apart:
            values = [
                constraint.value(one)
                for want, some in chosen
                if id(constraint) in want.apart
                for one in some
                if not is_free(one)
            ]
            known = [value for value in values if value[0] != "missing"]
            if len(set(known)) < len(known):
                return False
        return True

    def goes_on(chosen: list[tuple[Want, tuple[Candidate, ...]]], rest: tuple[Want, ...]) -> bool:
        if not works(chosen):
            return False
        if not rest:
            return True
        mine = [one for one in devices if rest[0].devices >> one.slot & 1]
        return any(
            goes_on([*chosen, (rest[0], some)], rest[1:]) for some in combinations(mine, rest[0].number)
        )

    return any(goes_on([], wants) for wants in product(*wanted))


def questions(seed: int) -> tuple[bool, bool]:
    """What the packing says, and what trying everything does."""
    dice = Random(f"packing {seed}")
    packing, devices, apart = packed(world(dice))
    every = (1 << len(devices)) - 1
    wanted = []
    for _ in range(dice.choice((1, 2, 3))):
        kept = frozenset(id(one) for one in apart if id(one) in packing.constraints and dice.random() < 0.3)
        wants = [
            Want(dice.randint(0, every) | dice.randint(0, every), dice.randint(1, 3), kept)
            for _ in range(dice.choice((1, 1, 2)))
        ]
        wanted.append(tuple(wants))
    forced = 1 << dice.randrange(len(devices)) if dice.random() < 0.2 else 0
    left = {key: amount for one in devices for key, amount in one.pool.counters.items()}
    got = packing.is_possible(wanted, forced, at_first=True)
    assert packing.is_possible(wanted, forced, at_first=True) is got
    return got, fits(devices, apart, left, wanted, forced)


def test_as_trying_everything_says() -> None:
    seen = Counter[bool]()
    for seed in seeds(CASES, CASES):
        got, expected = questions(seed)
        assert got is expected, f"seed {seed}"
        seen[got] += 1
    assert min(seen[True], seen[False]) > CASES / 10


@pytest.mark.parametrize(
    ("module", "limit", "value"),
    [
        (fronts, "_STATES", 3),
        (demands, "_CELLS", 4),
        (demands, "_DEMANDS", 1),
        (packing_module, "_MEMORY", 0),
    ],
)
def test_less_work_never_says_no_where_it_fits(
    module: ModuleType, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, value)
    for seed in seeds(CASES, CASES):
        got, expected = questions(seed)
        assert got or not expected, f"seed {seed}"


def test_equal_cards_are_looked_at_once() -> None:
    taken = [{"counterSet": f"s{card}", "counters": {"m": {"value": "2"}}} for card in range(50)]
    devices = [device(f"d{card}-{n}", consumesCounters=[taken[card]]) for card in range(50) for n in "abc"]
    sets = [{"name": f"s{card}", "counters": {"m": {"value": "5"}}} for card in range(50)]
    slices = [piece(*devices, of=2), piece(name="counters", of=2, sharedCounters=sets)]
    packing, found, _ = packed(slices)
    every = (1 << len(found)) - 1
    assert packing.is_possible([(Want(every, 100),)], 0, at_first=True)
    assert not packing.is_possible([(Want(every, 101),)], 0, at_first=True)
    assert len(packing._known_fronts) == 1
