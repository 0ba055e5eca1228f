from __future__ import annotations

import pytest

from dray.kubelet.plugins.reconcile import (
    BACKOFF_LIMIT,
    Operation,
    Register,
    Unregister,
    Wait,
    World,
    failed,
    next_due,
    operations,
)

NOW = 1000.0


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (World({}, {}), []),
        (World({"/a": 1}, {"/a": 1}), []),
        (World({"/b": 2, "/a": 1}, {}), [Register("/a", 1), Register("/b", 2)]),
        (World({}, {"/a": 1}), [Unregister("/a")]),
        (World({"/a": 2}, {"/a": 1}), [Unregister("/a")]),
        (World({"/a": 1}, {"/b": 2}), [Unregister("/b"), Register("/a", 1)]),
        (World({"/a": 1, "/b": 1}, {"/c": 1}, busy={"/a", "/c"}), [Register("/b", 1)]),
        (World({"/a": 1}, {}, waits={"/a": Wait(1, 0.5, NOW + 0.1)}), []),
        (World({"/a": 1}, {}, waits={"/a": Wait(1, 0.5, NOW)}), [Register("/a", 1)]),
        (World({"/a": 2}, {}, waits={"/a": Wait(1, 0.5, NOW + 0.1)}), [Register("/a", 2)]),
        (World({}, {"/a": 1}, waits={"/a": Wait(1, 0.5, NOW + 0.1)}), [Unregister("/a")]),
        (
            World({"/a": 1, "/b": 1, "/c": 1}, {}, waits={"/a": Wait(1, 4, NOW), "/b": Wait(1, 0.5, NOW)}),
            [Register("/c", 1), Register("/b", 1), Register("/a", 1)],
        ),
    ],
)
def test_operations(world: World, expected: list[Operation]) -> None:
    assert operations(world, NOW) == expected


def test_delays_double_up_to_the_limit() -> None:
    wait, delays, now = None, [], NOW
    for _ in range(11):
        wait = failed(wait, 1, now)
        assert wait.until == now + wait.delay
        delays.append(wait.delay)
        now = wait.until + 1
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, BACKOFF_LIMIT, BACKOFF_LIMIT, BACKOFF_LIMIT]
    assert BACKOFF_LIMIT == 122


@pytest.mark.parametrize(
    ("generation", "later", "delay"),
    [(1, 0.0, 128.0), (1, BACKOFF_LIMIT, 128.0), (1, BACKOFF_LIMIT + 1, 0.5), (2, 0.0, 0.5)],
)
def test_a_new_file_or_a_long_rest_starts_over(generation: int, later: float, delay: float) -> None:
    before = Wait(1, 64.0, NOW)
    assert failed(before, generation, NOW + later).delay == min(delay, BACKOFF_LIMIT)


@pytest.mark.parametrize(
    ("world", "due"),
    [
        (World({"/a": 1}, {}), None),
        (World({"/a": 1, "/b": 1}, {}, waits={"/a": Wait(1, 4, NOW + 3), "/b": Wait(1, 2, NOW + 2)}), 2.0),
        (World({"/a": 1}, {}, waits={"/a": Wait(1, 4, NOW - 3)}), None),
        (World({"/a": 1}, {}, busy={"/a"}, waits={"/a": Wait(1, 4, NOW + 3)}), None),
        (World({"/a": 1}, {"/a": 1}, waits={"/a": Wait(1, 4, NOW + 3)}), None),
        (World({"/a": 2}, {}, waits={"/a": Wait(1, 4, NOW + 3)}), None),
    ],
)
def test_the_next_try(world: World, due: float | None) -> None:
    assert next_due(world, NOW) == due
