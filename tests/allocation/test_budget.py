from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from dray.allocation.allocator import Allocator, Options
from dray.allocation.budget import LOOK, Budget
from dray.allocation.cases import read_case
from dray.allocation.faults import TimeLimitError
from dray.allocation.features import NAMES, Features, Tier
from dray.allocation.index.index import Index
from dray.allocation.profiles import CORRECT, PROFILES
from dray.allocation.selector import CompiledSelectors, features_for_selectors
from dray.allocation.state import AllocatedState
from dray.errors import InvalidError
from tests.allocation.mig_cases import G1, G3, NUMA, PARENT, asked, cards
from tests.allocation.world import (
    CAPACITY,
    LIST,
    PARTITIONS,
    Json,
    case,
    claim,
    device,
    every,
    first,
    piece,
    request,
    typed,
    uses,
    wish,
)
from tests.campaign import campaign

MOST_LINES = 30_000
"""Lines of Python between two looks at the clock: some milliseconds."""


class Hands:
    """A clock that stands still until it is told, and counts who looks."""

    def __init__(self) -> None:
        self.time = 0.0
        self.looks = 0

    def now(self) -> float:
        self.looks += 1
        return self.time


def test_without_a_clock_it_never_ends() -> None:
    budget = Budget(0.0)
    budget.charge(10**9)
    budget.check()
    assert not budget.is_over and not budget.part(0.0).is_over


def test_it_looks_at_the_clock_now_and_then_and_ends_in_time() -> None:
    hands = Hands()
    budget = Budget(10, hands.now)
    for _ in range(10 * LOOK):
        budget.charge()
    assert hands.looks == 11
    hands.time = 10.0
    with pytest.raises(TimeLimitError, match=r"^the search for devices was stopped after 10 s: ") as caught:
        budget.charge(LOOK)
    assert caught.value.seconds == 10
    assert budget.is_over


def test_a_part_ends_with_the_whole_and_says_whose_limit_it_was() -> None:
    hands = Hands()
    whole = Budget(10, hands.now)
    hands.time = 4.0
    short, long = whole.part(2.5), whole.part(8)
    hands.time = 7.0
    with pytest.raises(TimeLimitError, match=r"after 2\.5 s"):
        short.check()
    long.check()
    hands.time = 10.0
    with pytest.raises(TimeLimitError, match="after 10 s"):
        long.check()


SIZES = campaign(300, 10_000)
ROOTS = [{"matchAttribute": f"driver-a/a{number}"} for number in range(16)]
VALUES = [{"distinctAttribute": f"driver-a/d{number}"} for number in range(16)]
X = 'device.attributes["driver-a"].type == "X"'
Y = 'device.attributes["driver-a"].type == "Y"'


def unlike(number: int, **fields: Any) -> Json:
    attributes: Json = {f"a{place}": {"int": number // (8 + place)} for place in range(16)}
    attributes |= {f"d{place}": {"int": number // 2 + place} for place in range(16)}
    return device(f"d{number}", attributes=attributes | {"type": {"string": "X"}}, **fields)


def many(number: int, **fields: Any) -> list[Json]:
    return [unlike(place, **fields) for place in range(number)]


def pool(devices: list[Json], *counters: Json) -> list[Json]:
    """In as many slices as it takes."""
    parts = [devices[first : first + 128] for first in range(0, len(devices), 128)]
    of = len(parts) + len(counters)
    made = [piece(*part, of=of, name=f"s{place:03}") for place, part in enumerate(parts)]
    more = [piece(of=of, name=f"c{place}", sharedCounters=[one]) for place, one in enumerate(counters)]
    return made + more


def in_sets(number: int) -> list[Json]:
    """Hundreds of counter sets, no two of them alike."""
    sets = number // 8
    parts = [
        unlike(place, consumesCounters=uses(str(2 + place % 7), of=f"set-{place % sets}"))
        for place in range(number)
    ]
    counters = [
        {"name": f"set-{place}", "counters": {"mem": {"value": str(11 + place)}}} for place in range(sets)
    ]
    return pool(parts, *counters)


def one_each(number: int, **fields: Any) -> list[Json]:
    return [request(1, X, name=f"r{place}", **fields) for place in range(number)]


HARD: dict[str, Json] = {
    "32 requests, 32 constraints": case(
        pool(many(SIZES)), claim(*one_each(32), constraints=[*ROOTS, *VALUES])
    ),
    "32 requests that want too much": case(
        pool(many(SIZES)),
        *(claim(request(31, X), request(1, G3, name="b"), name=f"c{place}") for place in range(4)),
    ),
    "all devices": case(pool(many(SIZES)), claim(every(X))),
    "all devices of one that has none": case(
        pool(many(SIZES)), claim(*one_each(8), every(G3, name="all"), constraints=ROOTS[:2])
    ),
    "hundreds of counter sets": case(
        in_sets(SIZES),
        claim(*one_each(32), constraints=VALUES[:1]),
        claim(request(32, X), name="b"),
        features=(PARTITIONS,),
    ),
    "one counter of many": case(
        pool(
            many(SIZES // 4, consumesCounters=uses("3")),
            {"name": "set-1", "counters": {"mem": {"value": "47"}}},
        ),
        claim(*one_each(16)),
        features=(PARTITIONS,),
    ),
    "cards": case(
        cards(8),
        claim(*asked((9, G1), (9, G3)), constraints=[{"matchAttribute": NUMA}]),
        claim(*asked((5, G1), (4, G1)), name="b", constraints=[{"distinctAttribute": PARENT}]),
        features=(PARTITIONS, LIST),
    ),
    "a thousand claims": case(
        pool(many(1, allowMultipleAllocations=True)),
        claim(*(first(wish(1, Y), wish(1, X), name=f"r{place}") for place in range(12)), name="a"),
        *(claim(request(1, X), name=f"c{place}") for place in range(990)),
        features=(CAPACITY, LIST),
    ),
    "shares": case(
        pool(many(SIZES // 8, allowMultipleAllocations=True, capacity={"m": {"value": "10"}})),
        claim(
            *(
                request(1, X, name=f"r{place}", capacity={"requests": {"m": str(3 + place % 5)}})
                for place in range(31)
            ),
            request(1, X, name="last", capacity={"requests": {"m": "11"}}),
        ),
        features=(CAPACITY,),
    ),
}


class Lines:
    """Counts the lines of Python that run, and the most of them between two looks at a clock that ends after some."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._since = 0
        self.most = 0

    def now(self) -> float:
        self.most = max(self.most, self._since)
        self._since = 0
        self._looks -= 1
        return 0.0 if self._looks > 0 else 1.0

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        self._since += 1
        return self.trace

    def run(self, work: Any) -> None:
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            work()
        except InvalidError:
            pass
        finally:
            sys.settrace(before)
        self.most = max(self.most, self._since)


@pytest.mark.parametrize("profile", ["k8s-1.36", "correct"])
@pytest.mark.parametrize("name", list(HARD))
def test_the_clock_is_looked_at_often_enough(name: str, profile: str) -> None:
    """Whatever is asked, and however much of it: the work between two looks does not grow with it."""
    read, allocator, _ = typed(HARD[name], profile)
    lines = Lines(campaign(100, 3_000))
    budget = Budget(0.5, lines.now)
    lines.run(lambda: allocator.allocate(read.node, read.claims, budget))
    assert lines.most < MOST_LINES, lines.most


@pytest.mark.parametrize("name", ["cards", "hundreds of counter sets", "shares", "a thousand claims"])
def test_the_index_looks_at_it_as_well(name: str) -> None:
    read = read_case(HARD[name])
    features = Features.named(read.features)
    index = Index(Options(features, CORRECT, Tier.EXPERIMENTAL), classes=read.classes, slices=read.slices)
    lines = Lines(campaign(100, 3_000))
    index.view(read.node)
    for text in (X, Y, G3):
        index.selectors.selector(text)
    lines.run(lambda: index.attempt(read.claims, Budget(0.5, lines.now)).allocate(read.node))
    assert lines.most < MOST_LINES, lines.most


def test_the_clock_is_looked_at_before_each_selector() -> None:
    """Compiling one may take a sixth of a second, and evaluating it half of one; a claim may bring hundreds."""
    many_selectors = request(1)
    texts = [f"{number} >= 0" for number in range(30)]
    many_selectors["exactly"]["selectors"] = [{"cel": {"expression": text}} for text in texts]
    read = read_case(case([piece(unlike(0))], claim(many_selectors)))
    options, hands = Options(Features.named(read.features), CORRECT), Hands()
    budget = Budget(10, hands.now)
    index = Index(options, classes=read.classes, slices=read.slices)
    assert index.attempt(read.claims, budget).allocate(read.node) is not None
    assert hands.looks > len(texts)
    hands.looks = 0
    allocator = Allocator(
        options,
        allocated=AllocatedState(),
        classes=read.classes,
        slices=read.slices,
        selectors=CompiledSelectors(features_for_selectors(options.features, CORRECT)),
    )
    assert allocator.allocate(read.node, read.claims, budget) is not None
    assert hands.looks > len(texts) // 2
    index.selectors.budget = budget
    hands.time = 10.0
    assert index.selectors.selector(texts[0]) is not None
    with pytest.raises(TimeLimitError):
        index.selectors.selector("1 == 2")


def test_a_node_that_was_stopped_is_not_searched_again() -> None:
    read = read_case(HARD["shares"])
    hands = Hands()
    options = Options(Features.named([*NAMES.values()]), CORRECT, seconds=3)
    index = Index(options, classes=read.classes, slices=read.slices)
    attempt = index.attempt(read.claims, Budget(10, hands.now))
    real, hands.time = hands.now, 0.0

    def later() -> float:
        hands.time += 1
        return real()

    budget = Budget(10, later)
    attempt = index.attempt(read.claims, budget)
    assert attempt.feasible([read.node]) == []
    looks = hands.looks
    for _ in range(2):
        with pytest.raises(TimeLimitError, match="stopped after 3 s"):
            attempt.allocate(read.node)
    assert hands.looks == looks
    assert index.attempt(read.claims).feasible([read.node]) == []


@pytest.mark.parametrize("profile", list(PROFILES))
def test_who_has_time_gets_the_same_answer(profile: str) -> None:
    given = case(cards(2), claim(*asked((2, G1), (1, G3), (3, G1))), features=(PARTITIONS,))
    read, allocator, _ = typed(given, profile)
    plain = allocator.allocate(read.node, read.claims)
    assert plain is not None
    assert allocator.allocate(read.node, read.claims, Budget(10, Hands().now)) == plain
