from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.dra.claims.asking import Wanted, WantedDevice, WantedRequest
from dray.dra.claims.deciding import Begun, Done, Relock, RollBack, begin, find_overlap
from dray.dra.claims.state import Entry, Holding, Phase, Request, State
from dray.dra.claims.stored_device import store
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device, Health
from dray.errors import ConflictError, NotFoundError
from tests.dra.test_state import SHARES


def planned(uid: str, *devices: str, share: str | None = None, admin: bool = False, **parts: Any) -> Entry:
    holdings = tuple(
        Holding(
            WantedDevice(name, share), store(Device(name, "t", "", Health.HEALTHY)), parts.get(name, (name,))
        )
        for name in devices
    )
    return Entry(ClaimRef("ns", uid, uid), Phase.STARTED, (Request("r", "l", holdings, admin),))


def wanted(entry: Entry) -> Wanted:
    requests = tuple(
        WantedRequest(one.name, tuple(held.wanted for held in one.holdings), one.admin_access)
        for one in entry.requests
    )
    return Wanted(entry.claim, requests)


def completed(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, phase=Phase.COMPLETED)


def step(state: State, entry: Entry, locked: frozenset[str] | None = None) -> Any:
    return begin(state, wanted(entry), entry, entry.parts if locked is None else locked)


def test_the_first_of_its_kind_begins() -> None:
    entry = planned("a", "x")
    after, outcome = step(State(), entry)
    assert outcome == Begun(entry)
    assert after.entries == (entry,)


def test_nothing_begins_without_its_locks() -> None:
    entry = planned("a", "x", "y")
    state, outcome = step(State(), entry, frozenset("x"))
    assert (state, outcome) == (State(), Relock(frozenset("xy")))


def test_the_same_again_is_done_before() -> None:
    entry = planned("a", "x")
    state = State().with_entry(completed(entry))
    assert step(state, entry) == (state, Done(completed(entry)))
    error = NotFoundError("gone", kind="device", name="x")
    assert begin(state, wanted(entry), error, frozenset("x"))[1] == Done(completed(entry))
    with pytest.raises(NotFoundError):
        begin(State(), wanted(entry), error, frozenset("x"))
    with pytest.raises(ConflictError, match="other devices"):
        step(state, planned("a", "y"), frozenset("xy"))


def test_what_was_left_in_the_middle_is_rolled_back() -> None:
    mine, other = planned("a", "x"), planned("b", "x", "y")
    state = State().with_entry(mine)
    assert step(state, mine)[1] == RollBack(mine)
    state = State().with_entry(other)
    assert step(state, mine)[1] == Relock(frozenset("xy"))
    assert step(state, mine, frozenset("xy"))[1] == RollBack(other)


def test_devices_of_others_are_refused_by_their_parts() -> None:
    state = State().with_entry(completed(planned("b", "big", big=("p", "q"))))
    with pytest.raises(ConflictError, match="device small is prepared, with big, for claim ns/b"):
        step(state, planned("a", "small", small=("q",)))
    assert isinstance(step(state, planned("a", "free"))[1], Begun)
    assert isinstance(step(state, planned("a", "big", admin=True, big=("p", "q")))[1], Begun)


def test_shares_of_one_device_do_not_conflict() -> None:
    state = State().with_entry(completed(planned("b", "x", share=SHARES[0])))
    assert isinstance(step(state, planned("a", "x", share=SHARES[1]))[1], Begun)
    for taken in (None, SHARES[0]):
        with pytest.raises(ConflictError):
            step(state, planned("a", "x", share=taken))
    with pytest.raises(ConflictError):
        step(state, planned("a", "y", share=SHARES[1], y=("x",)))


@pytest.mark.parametrize("own", ["a", "c"])
def test_a_claims_own_entry_does_not_hide_another_that_has_its_device(own: str) -> None:
    entry, other = planned(own, "x"), completed(planned("b", "x"))
    state = State().with_entry(completed(entry)).with_entry(other)
    assert find_overlap(State().with_entry(completed(entry)), entry) is None
    found = find_overlap(state, entry)
    assert found is not None and found[0] == other
