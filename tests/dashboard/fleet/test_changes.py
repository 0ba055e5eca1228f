"""The log of changes: nothing is lost, nothing told twice, and who comes too late is told so."""

from __future__ import annotations

import random

import pytest

from dray.dashboard.fleet.changes import Changed, ChangeLog


def test_what_changed_since_is_told_once_each() -> None:
    log = ChangeLog("a")
    log.note("node", "n1")
    start = log.number
    for key in ("n1", "n2", "n1"):
        log.note("node", key)
    assert log.since(start) == frozenset({Changed("node", "n1"), Changed("node", "n2")})
    assert log.since(log.number) == frozenset()


def test_what_is_forgotten_is_not_made_up() -> None:
    log = ChangeLog("a", most=3)
    for number in range(5):
        log.note("claim", str(number))
    assert log.since(1) is None
    assert log.since(2) == frozenset(Changed("claim", str(number)) for number in (2, 3, 4))


@pytest.mark.parametrize("text", ["", "b-1", "a-2", "a--1", "a-x", "a-", "1", "a-١", f"a-{'9' * 30}"])
def test_a_revision_of_another_life_or_of_the_future_is_none(text: str) -> None:
    log = ChangeLog("a")
    log.note("node", "n")
    assert log.parse(text) is None
    assert log.parse(log.revision()) == 1
    assert log.parse(log.revision(0)) == 0


def test_followers_at_any_pace_know_all_that_changed() -> None:
    dice = random.Random(7)
    log = ChangeLog("a", most=50)
    places = [0] * 5
    missing: list[set[str]] = [set() for _ in places]
    for _ in range(2000):
        key = str(dice.randrange(10))
        log.note("node", key)
        for one in missing:
            one.add(key)
        who = dice.randrange(5)
        told = log.since(places[who])
        assert told is None or {one.key for one in told} == missing[who]
        assert (told is None) == (log.number - places[who] > 50)
        places[who], missing[who] = log.number, set()
