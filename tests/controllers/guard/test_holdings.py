"""What is known of writes that were let through, against all that can have become of them."""

from __future__ import annotations

import random

import pytest

from dray.allocation.holding import Held
from dray.controllers.guard.holdings import Holding, Holdings
from dray.controllers.guard.review import Subject
from tests.campaign import seeds


def subject(uid: str, version: int) -> Subject:
    return Subject("default", f"claim-{uid}", uid, version)


def held(*devices: str) -> tuple[Held, ...]:
    return tuple(Held("d", "n", one) for one in devices)


def stored(uid: str, version: int, *devices: str) -> Holding:
    return Holding(subject(uid, version), held(*devices))


def let_through(uid: str, version: int, *devices: str) -> Holding:
    return Holding(subject(uid, version), held(*devices), is_stored=False)


def is_free(holdings: Holdings, device: str, uid: str = "other") -> bool:
    return holdings.judge(uid, held(device), lambda *_: ()) is None


def test_a_reservation_goes_with_a_later_version_and_not_with_an_earlier_one() -> None:
    holdings = Holdings()
    holdings.reserve(let_through("a", 5, "g"))
    holdings.see(stored("a", 4))
    holdings.see(stored("a", 5))
    assert not is_free(holdings, "g")
    assert is_free(holdings, "g", "a")
    holdings.see(stored("a", 6))
    assert is_free(holdings, "g") and holdings.reserved() == ()


def test_a_question_to_the_server_counts_more_than_a_watch_that_lags() -> None:
    holdings = Holdings()
    holdings.see(stored("a", 5, "g"))
    holdings.see(stored("a", 7), is_live=True)
    holdings.see(stored("a", 6, "g"))
    assert is_free(holdings, "g")
    holdings.see(stored("a", 8, "g"))
    holdings.see(stored("a", 7), is_live=True)  # an answer that came late
    assert not is_free(holdings, "g")


def test_a_watch_that_goes_back_is_believed() -> None:
    """The server was put back to an earlier state."""
    holdings = Holdings()
    holdings.see(stored("a", 9))
    holdings.see(stored("a", 3, "g"))
    assert not is_free(holdings, "g")


def test_a_claim_that_is_gone_holds_nothing_and_cannot_come_to() -> None:
    holdings = Holdings()
    holdings.see(stored("a", 5, "g"))
    number = holdings.reserve(let_through("a", 6, "h"))
    holdings.forget("a")
    holdings.release(number)
    assert is_free(holdings, "g") and is_free(holdings, "h")
    assert not holdings.is_settled(subject("a", 1))


def test_what_can_no_longer_be_stored() -> None:
    holdings = Holdings()
    holdings.see(stored("a", 5))
    assert holdings.is_settled(subject("a", 4)) and not holdings.is_settled(subject("a", 5))


@pytest.mark.parametrize("seed", seeds(20, 2000))
def test_a_device_that_is_called_free_cannot_come_to_be_held(seed: int) -> None:
    """Each claim's history is a line of versions; the watch shows it late and in order, questions show its end."""
    rng = random.Random(seed)
    holdings = Holdings()
    histories: dict[str, list[Holding]] = {uid: [stored(uid, 1)] for uid in "abcd"}
    shown = dict.fromkeys(histories, 0)
    open_writes: list[Holding] = []
    version = 1
    for uid in histories:
        holdings.see(histories[uid][0])
    for _ in range(80):
        uid = rng.choice("abcd")
        now = histories[uid][-1]
        version += 1
        match rng.randrange(6):
            case 0 | 1 if not now.held:
                devices = rng.sample(["g", "h", "i"], rng.randint(1, 2))
                if holdings.judge(uid, held(*devices), lambda *_: ()) is None:
                    based = rng.choice(histories[uid][-2:])
                    if not holdings.is_settled(based.subject):
                        holdings.reserve(let_through(uid, based.subject.version, *devices))
                    open_writes.append(let_through(uid, based.subject.version, *devices))
            case 2 if open_writes:
                one = open_writes.pop(rng.randrange(len(open_writes)))
                history = histories[one.subject.uid]
                if history[-1].subject.version == one.subject.version and not history[-1].held:
                    history.append(Holding(subject(one.subject.uid, version), one.held))
            case 3:
                histories[uid].append(stored(uid, version))  # freed, or only changed
            case 4:
                shown[uid] = min(shown[uid] + 1, len(histories[uid]) - 1)
                holdings.see(histories[uid][shown[uid]])
            case _:
                holdings.see(now, is_live=True)
        given = [one.place for history in histories.values() for one in history[-1].held]
        assert len(given) == len(set(given)), given
