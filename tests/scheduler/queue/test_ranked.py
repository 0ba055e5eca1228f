"""A heap from which any key can be taken."""

from __future__ import annotations

import random

from dray.scheduler.queue.ranked import Ranked


def test_least_rank_first_and_equal_ranks_in_order() -> None:
    heap: Ranked[str] = Ranked()
    for key, rank in (("a", 2.0), ("b", 1.0), ("c", 2.0), ("d", 1.0)):
        heap.add(key, (rank,))
    assert heap.first() == ("b", (1.0,)) and len(heap) == 4 and "a" in heap
    assert [heap.pop() for _ in range(5)] == ["b", "d", "a", "c", None]
    assert heap.first() is None


def test_a_key_can_move_and_go() -> None:
    heap: Ranked[str] = Ranked()
    heap.add("a", (1.0,))
    heap.add("b", (2.0,))
    heap.add("a", (3.0,))
    assert len(heap) == 2 and heap.discard("b") and not heap.discard("b")
    assert heap.pop() == "a" and heap.pop() is None


def test_any_use_agrees_with_a_sorted_list_and_memory_is_bounded() -> None:
    chance, heap, known = random.Random(3), Ranked[int](), dict[int, tuple[float, int]]()
    for step in range(5_000):
        key = chance.randrange(50)
        match chance.randrange(4):
            case 0:
                assert heap.discard(key) is (known.pop(key, None) is not None)
            case 1:
                expected = min(known, key=lambda one: known[one], default=None)
                assert heap.pop() == expected
                known.pop(-1 if expected is None else expected, None)
            case _:
                rank = float(chance.randrange(5))
                heap.add(key, (rank,))
                known[key] = (rank, step)
        assert set(heap) == set(known)


def test_keys_that_went_do_not_pile_up() -> None:
    heap: Ranked[int] = Ranked()
    for number in range(10_000):
        heap.add(number, (float(number),))
        heap.discard(number)
    assert len(heap) == 0 and len(heap._heap) <= 65
