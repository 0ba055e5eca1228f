from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from dray.kubelet.topology.hints import Hint, mask_of
from dray.kubelet.topology.merge import choices_of, counted_in_common, merge, overlaps, rank, wanted_count
from dray.kubelet.topology.nodes import NumaNodes
from tests.campaign import campaign, seeded

FOUR = NumaNodes(
    (0, 1, 2, 3), {0: (10, 11, 12, 12), 1: (11, 10, 12, 12), 2: (12, 12, 10, 11), 3: (12, 12, 11, 10)}
)
EIGHT = NumaNodes(
    tuple(range(8)),
    {
        0: (10, 11, 12, 12, 30, 30, 30, 30),
        1: (11, 10, 12, 12, 30, 30, 30, 30),
        2: (12, 12, 10, 9, 30, 30, 30, 30),
        3: (12, 12, 9, 10, 30, 30, 30, 30),
        4: (30, 30, 30, 30, 10, 11, 12, 12),
        5: (30, 30, 30, 30, 11, 10, 12, 12),
        6: (30, 30, 30, 30, 12, 12, 10, 11),
        7: (30, 30, 30, 30, 12, 12, 13, 10),
    },
)


def preferred(*ids: int) -> Hint:
    return Hint(mask_of(ids), True)


def other(*ids: int) -> Hint:
    return Hint(mask_of(ids), False)


WIDE = [preferred(0, 1, 2, 3), other(0, 1)]


@pytest.mark.parametrize(
    ("choices", "narrowest", "closest"),
    [
        pytest.param(
            [[preferred(0, 1)], [other(0, 1)]], other(0, 1), other(0, 1), id="one does not prefer it"
        ),
        pytest.param([WIDE, [other(0, 1)]], other(0, 1), other(0, 1), id="two of four"),
        pytest.param([WIDE, [other(0, 3)]], other(0, 3), other(0, 3), id="a pair elsewhere"),
        pytest.param([WIDE, [other(1, 2)]], other(1, 2), other(1, 2), id="a pair in the middle"),
        pytest.param([WIDE, [other(2, 3)]], other(2, 3), other(2, 3), id="a pair at the end"),
        pytest.param([WIDE, [other(1, 2), other(2, 3)]], other(1, 2), other(2, 3), id="two pairs"),
        pytest.param(
            [WIDE, [other(1, 2, 3), other(1, 2), other(1, 3), other(2, 3)]],
            other(1, 2),
            other(2, 3),
            id="pairs of three",
        ),
        pytest.param(
            [[preferred(0, 4), preferred(0, 2)], [preferred(0, 4), preferred(0, 2)]],
            preferred(0, 2),
            preferred(0, 2),
            id="equally wide",
        ),
        pytest.param(
            [[preferred(4), preferred(0, 2)], [preferred(4), preferred(0, 2)]],
            preferred(4),
            preferred(4),
            id="the narrower first",
        ),
        pytest.param(
            [[preferred(0, 1), preferred(2, 3)]], preferred(0, 1), preferred(2, 3), id="nearer pair"
        ),
        pytest.param(
            [[preferred(6, 7), preferred(4, 5)]], preferred(4, 5), preferred(4, 5), id="farther one way"
        ),
        pytest.param(
            [[preferred(5, 4), preferred(0, 1)]], preferred(0, 1), preferred(0, 1), id="equally near"
        ),
    ],
)
def test_eight_nodes(choices: list[list[Hint]], narrowest: Hint, closest: Hint) -> None:
    for some in (choices, choices[::-1], [hints[::-1] for hints in choices]):
        assert merge(EIGHT, some) == narrowest
        assert merge(EIGHT, some, prefer_closest=True) == closest


@pytest.mark.parametrize(
    ("choices", "merged"),
    [
        pytest.param([], preferred(0, 1, 2, 3), id="no provider"),
        pytest.param([[Hint(None, True)]], preferred(0, 1, 2, 3), id="any node"),
        pytest.param([[Hint(None, False)]], other(0, 1, 2, 3), id="impossible"),
        pytest.param([[Hint(0, True)]], other(0, 1, 2, 3), id="no node"),
        pytest.param([[]], other(0, 1, 2, 3), id="nothing left"),
        pytest.param([[preferred(0)], []], other(0, 1, 2, 3), id="nothing left of one"),
        pytest.param([[preferred(0)], [preferred(1)]], other(0, 1, 2, 3), id="no common mask"),
        pytest.param([[preferred(9)], [preferred(1)]], other(0, 1, 2, 3), id="not of this machine"),
        pytest.param([[preferred(1, 9)], [preferred(1, 9)]], preferred(1), id="in part of this machine"),
        pytest.param([[preferred(1, 9)], [preferred(1)]], other(1), id="equal only on this machine"),
        pytest.param([[preferred(1)], [preferred(1)]], preferred(1), id="same mask"),
        pytest.param([[Hint(None, True)], [preferred(1)]], preferred(1), id="one does not care"),
        pytest.param([[preferred(1)], [Hint(None, True)]], preferred(1), id="the other does not care"),
        pytest.param([[Hint(None, False)], [preferred(1)]], other(1), id="one is impossible"),
        pytest.param([[preferred(0), preferred(1)], [preferred(1)]], preferred(1), id="two and one"),
        pytest.param(
            [[preferred(0), preferred(1)], [preferred(0), other(0, 1)]], preferred(0), id="narrower"
        ),
        pytest.param(
            [[preferred(1), other(0, 1)], [preferred(0), preferred(1), other(0, 1)]],
            preferred(1),
            id="preferred before narrower",
        ),
        pytest.param(
            [[preferred(0, 1), other(0)], [preferred(0, 1), other(0)]], preferred(0, 1), id="wider wins"
        ),
        pytest.param([[preferred(0, 1)], [preferred(0)]], other(0), id="wider mask"),
        pytest.param([[preferred(0)], [preferred(0, 1)]], other(0), id="wider mask, second"),
        pytest.param([[preferred(0), preferred(1)], [other(0, 1)]], other(0), id="only a wide one"),
        pytest.param(
            [[preferred(0), Hint(None, True)], [preferred(1)]], preferred(1), id="a hint that does not care"
        ),
    ],
)
def test_four_nodes(choices: list[list[Hint]], merged: Hint) -> None:
    assert merge(FOUR, choices) == merged
    assert merge(FOUR, choices[::-1]) == merged


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [(0, [1, 2, 3, 4]), (1, [1, 2, 3, 4]), (2, [2, 1, 3, 4]), (3, [3, 2, 1, 4]), (4, [4, 3, 2, 1])],
)
def test_without_a_preferred_outcome_as_many_nodes_as_the_neediest_resource_needs(
    wanted: int, counts: list[int]
) -> None:
    assert sorted(range(1, 5), key=lambda count: rank(count, wanted)) == counts


@pytest.mark.parametrize(
    ("choices", "count"),
    [
        ([], 0),
        ([[]], 0),
        ([[Hint(None, True)]], 0),
        ([[Hint(0, True)]], 0),
        ([[preferred(0)]], 1),
        ([[preferred(0, 1)]], 2),
        ([[preferred(0, 1), preferred(0, 1, 2)]], 2),
        ([[preferred(0, 1), preferred(0, 1, 2)], [other(0, 1, 2)]], 3),
        ([[preferred(0, 1), Hint(None, False)], [other(0, 1, 2), other(0, 1, 2, 3)]], 3),
    ],
)
def test_the_neediest_resource(choices: list[list[Hint]], count: int) -> None:
    assert wanted_count(choices) == count


def test_what_providers_say_as_choices() -> None:
    said = [{}, {"b": None, "a": [], "c": [preferred(1)]}]
    assert choices_of(said) == [
        (Hint(None, True),),
        (Hint(None, False),),
        (Hint(None, True),),
        [preferred(1)],
    ]


def test_all_hints_of_eight_nodes_and_five_resources_lead_to_few_states() -> None:
    """The ways are 255^5, about 10^12."""
    hints = [Hint(mask, False) for mask in range(1, 256)]
    sizes = [len(reached) for reached in overlaps([hints] * 5, EIGHT.mask)]
    assert sizes == [1, 255, 255, 255, 255, 255]
    assert merge(EIGHT, [hints] * 5, prefer_closest=True) == other(0)


def test_many_nodes_are_counted_instead_of_paired() -> None:
    """With 13 nodes the pairs of masks would be 67 million a resource."""
    nodes = NumaNodes(tuple(range(13)))
    hints = [Hint(mask, False) for mask in range(1, 1 << 13) if mask.bit_count() >= 3]
    sizes = [len(reached) for reached in overlaps([hints] * 3, nodes.mask)]
    assert sizes == [1, len(hints), (1 << 13) - 1, (1 << 13) - 1]
    assert merge(nodes, [hints] * 2) == other(0, 1, 2)
    elsewhere = [
        other(*range(20, 24)) if mask.nodes == 0b111 else Hint((mask.nodes or 0) | 1 << 40, False)
        for mask in hints
    ]
    assert merge(nodes, [hints, elsewhere]) == other(0, 1, 2, 3), (
        "nodes that the machine does not have count for nothing"
    )


def test_counted_and_paired_are_the_same() -> None:
    random = seeded(5)
    for _ in range(campaign(60, 2_000)):
        machine = (1 << random.randint(1, 7)) - 1
        some, others = ({random.randint(0, machine) for _ in range(random.randint(1, 40))} for _ in range(2))
        paired = {one & another for one in some for another in others} - {0}
        assert counted_in_common(some, others, machine) == paired


def test_every_merge_is_the_best_of_all_ways() -> None:
    """Against a plain walk over all ways with the kubelet's comparison of two, in random order."""
    random = seeded(7)
    for _ in range(campaign(400, 20_000)):
        nodes = random.choice((FOUR, EIGHT))
        choices = [
            [_any_hint(random, nodes) for _ in range(random.randint(0, 5))]
            for _ in range(random.randint(0, 3))
        ]
        closest = random.random() < 0.5
        assert merge(nodes, choices, prefer_closest=closest) == _listed(nodes, choices, closest=closest)


def _any_hint(random: Random, nodes: NumaNodes) -> Hint:
    mask = random.randint(0, nodes.mask) & random.randint(0, nodes.mask)
    return Hint(None if random.random() < 0.1 else mask, random.random() < 0.5)


def _listed(nodes: NumaNodes, choices: Sequence[Sequence[Hint]], *, closest: bool = False) -> Hint:
    best: Hint | None = None
    narrowest = [[hint.nodes.bit_count() for hint in hints if hint.nodes is not None] for hints in choices]
    wanted = max((min(counts, default=0) for counts in narrowest), default=0)
    for way in product(*choices):
        masks = [hint.nodes for hint in way if hint.nodes is not None]
        mask = nodes.mask
        for some in masks:
            mask &= some
        candidate = Hint(mask, all(hint.preferred for hint in way) and len(set(masks)) < 2)
        if mask:
            best = candidate if best is None else _better(nodes, best, candidate, wanted, closest)
    return best or Hint(nodes.mask, False)


def _better(nodes: NumaNodes, current: Hint, candidate: Hint, wanted: int, closest: bool) -> Hint:
    assert current.nodes is not None and candidate.nodes is not None
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    now, then = current.nodes.bit_count(), candidate.nodes.bit_count()

    def fitter() -> Hint:
        def order(hint: Hint) -> tuple[float, ...]:
            assert hint.nodes is not None
            count = hint.nodes.bit_count()
            return (count, nodes.spread(hint.nodes) / count**2 if closest else 0.0, hint.nodes)

        return candidate if order(candidate) < order(current) else current

    if current.preferred or now > wanted:
        return fitter()
    if now == wanted:
        return fitter() if then == wanted else current
    if then > wanted:
        return current
    if then == wanted or then > now:
        return candidate
    return current if then < now else fitter()


def test_what_sits_on_few_nodes_decides_for_what_is_everywhere() -> None:
    """Devices name only their own nodes; processors name all. The devices' node is kept."""
    everywhere = [preferred(0), preferred(1), preferred(2), preferred(3), other(0, 1, 2, 3)]
    assert merge(FOUR, [[preferred(1), preferred(3), other(1, 3)], everywhere]) == preferred(1)
    assert merge(FOUR, [[preferred(3)], everywhere]) == preferred(3)
    assert merge(FOUR, [[preferred(1, 3)], everywhere]) == other(1, 3)
