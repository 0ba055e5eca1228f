from __future__ import annotations

import msgspec
import pytest

from dray.allocation.state import DeviceID
from dray.api.limits import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from dray.api.quantity import Quantity
from dray.api.resource import ResourceClaim
from dray.scheduler.claims.tracking import ClaimChange, Tracker, version_of
from tests.scheduler.claims.driving import DEFAULT, settings_with
from tests.scheduler.claims.objects import DRIVER, allocated, claim, owned_by, pod, result

SHARED = result("shared", shareID="11111111-1111-4111-8111-111111111111")
CAPACITY = result("shared", shareID="22222222-2222-4222-8222-222222222222", consumedCapacity={"my-cap": "1"})
CAPACITY_2 = result(
    "shared", shareID="33333333-3333-4333-8333-333333333333", consumedCapacity={"my-cap": "1"}
)
WITHOUT = "DRAConsumableCapacity=false"

GATHERED: dict[str, tuple[str, list[ResourceClaim], list[ResourceClaim], tuple[int, int, str]]] = {
    "no-claims": ("", [], [], (0, 0, "")),
    "single-allocated-claim": (WITHOUT, [allocated()], [], (1, 0, "")),
    "single-allocated-claim-with-shared-device": ("", [allocated(SHARED)], [], (0, 1, "")),
    "single-allocated-claim-with-capacity": ("", [allocated(CAPACITY)], [], (0, 1, "1")),
    "disabled-single-allocated-claim-with-capacity": (WITHOUT, [allocated(CAPACITY)], [], (1, 0, "")),
    "mixed-allocated-claim": ("", [allocated(), allocated(CAPACITY, name="b")], [], (1, 1, "1")),
    "add-inflight-allocated-claim-with-capacity": (
        "",
        [allocated(), allocated(CAPACITY, name="b")],
        [allocated(CAPACITY_2, name="c")],
        (1, 2, "2"),
    ),
    "disabled-inflight-allocated-claim-with-capacity": (
        WITHOUT,
        [allocated(), allocated(CAPACITY, name="b")],
        [allocated(CAPACITY_2, name="c")],
        (2, 0, ""),
    ),
}


@pytest.mark.parametrize("name", GATHERED)
def test_gather_allocated_state(name: str) -> None:
    gates, stored, flying, (whole, shares, capacity) = GATHERED[name]
    tracker = Tracker(settings_with(gates))
    for one in stored:
        tracker.set_claim(one)
    for one in flying:
        assert tracker.signal(one, "uid-pod")
    state = tracker.allocated()
    assert (len(state.devices), len(state.shares)) == (whole, shares)
    held = state.capacity.get(DeviceID(DRIVER, "worker", "shared"), {})
    assert held == ({"my-cap": Quantity(capacity)} if capacity else {})


def test_admin_access_holds_nothing() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(allocated(result(adminAccess=True)))
    tracker.signal(allocated(result(adminAccess=True), name="b"), "uid-pod")
    assert tracker.allocated().devices == frozenset()


MINE, OTHER = allocated(name="mine"), allocated(result("instance-2"), name="other")
FEW = {"uid-mine": {"p1"}, "uid-other": {f"p{one}" for one in range(10)}}
TWO = {**FEW, "uid-mine": {"p1", "p2"}}


def with_sharers(sharers: dict[str, set[str]]) -> Tracker:
    tracker = Tracker(DEFAULT)
    for one in (MINE, OTHER):
        for user in sorted(sharers.get(one.metadata.uid, ())):
            assert tracker.signal(one, user)
    return tracker


def sharers_of(tracker: Tracker) -> dict[str, set[str]]:
    return {one.claim.metadata.uid: set(one.sharers) for one in tracker.in_flight}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"uid-mine": {"p9"}}, id="empty"),
        pytest.param(FEW, {**FEW, "uid-mine": {"p1", "p9"}}, id="already-exists"),
    ],
)
def test_signal(before: dict[str, set[str]], after: dict[str, set[str]]) -> None:
    tracker = with_sharers(before)
    assert tracker.signal(MINE, "p9")
    assert sharers_of(tracker) == after


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        pytest.param({}, None, id="empty"),
        pytest.param({"uid-other": {"p1"}}, None, id="nil-claim"),
        pytest.param(FEW, MINE.status.allocation, id="claim"),
    ],
)
def test_get_pending_allocation(before: dict[str, set[str]], wanted: object) -> None:
    tracker = with_sharers(before)
    assert tracker.pending("uid-mine") == wanted
    assert sharers_of(tracker) == before


@pytest.mark.parametrize(
    ("before", "force", "is_removed", "after"),
    [
        pytest.param({}, True, False, {}, id="empty"),
        pytest.param(FEW, False, True, {"uid-other": FEW["uid-other"]}, id="delete-last-sharer"),
        pytest.param(FEW, True, True, {"uid-other": FEW["uid-other"]}, id="force-delete-last-sharer"),
        pytest.param(TWO, False, False, {**TWO, "uid-mine": {"p2"}}, id="decrement-remaining-sharers"),
        pytest.param(TWO, True, True, {"uid-other": TWO["uid-other"]}, id="force-delete-remaining-sharers"),
    ],
)
def test_release(
    before: dict[str, set[str]], force: bool, is_removed: bool, after: dict[str, set[str]]
) -> None:
    tracker = with_sharers(before)
    assert tracker.release("uid-mine", "p1", force=force) is is_removed
    assert sharers_of(tracker) == after


def test_letting_go_twice_does_not_take_it_from_the_other() -> None:
    tracker = with_sharers(TWO)
    assert not tracker.release("uid-mine", "p1")
    assert not tracker.release("uid-mine", "p1")
    assert tracker.pending("uid-mine") is not None


def test_signal_is_refused_where_the_claim_is_allocated_or_something_else_is_on_its_way() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(MINE)
    assert not tracker.signal(MINE, "p1")
    tracker = with_sharers(FEW)
    assert not tracker.signal(allocated(result("instance-3"), name="mine"), "p2")


def at(one: ResourceClaim, version: int) -> ResourceClaim:
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, resource_version=str(version))
    )


def devices(tracker: Tracker) -> set[str]:
    return {one.device for one in tracker.allocated().devices}


def test_the_informer_does_not_undo_what_is_assumed() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(claim(), 5))
    assert tracker.assume(at(allocated(), 7))
    assert devices(tracker) == {"instance-1"}
    assert tracker.set_claim(at(claim(), 6)) is None
    assert devices(tracker) == {"instance-1"}
    change = tracker.set_claim(at(claim(), 8))
    assert change == ClaimChange(at(allocated(), 7), at(claim(), 8))
    assert devices(tracker) == set()


def test_an_answer_that_is_no_news_is_not_assumed() -> None:
    tracker = Tracker(DEFAULT)
    assert not tracker.assume(at(allocated(), 7))
    tracker.set_claim(at(claim(), 9))
    assert not tracker.assume(at(allocated(), 7))
    assert tracker.get("default", "my-claim") == at(claim(), 9)


def test_restore() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(claim(), 5))
    assert tracker.restore("default", "my-claim") is None
    tracker.assume(at(allocated(), 7))
    tracker.set_claim(at(claim(), 6))
    assert tracker.restore("default", "my-claim") == ClaimChange(at(allocated(), 7), at(claim(), 6))
    assert devices(tracker) == set()


def test_an_older_list_is_believed_where_nothing_is_assumed() -> None:
    """The API server was restored from a backup."""
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(allocated(), 9))
    tracker.set_claim(at(claim(), 3))
    assert tracker.get("default", "my-claim") == at(claim(), 3)
    assert devices(tracker) == set()


def test_what_is_in_flight_outlives_its_claim() -> None:
    """The claim is gone and made anew under its name: the allocation of the old one may still be written."""
    tracker = Tracker(DEFAULT)
    tracker.set_claim(claim())
    tracker.signal(allocated(), "p1")
    tracker.remove_claim(claim())
    assert devices(tracker) == {"instance-1"}
    tracker.set_claim(claim(uid="another"))
    assert devices(tracker) == {"instance-1"}
    tracker.release("uid-my-claim", "p1")
    assert devices(tracker) == set()


def test_what_is_stored_does_not_count_twice() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(claim(), 1))
    tracker.signal(allocated(CAPACITY), "p1")
    tracker.set_claim(at(allocated(CAPACITY), 2))
    assert list(tracker.allocated().capacity.values()) == [{"my-cap": Quantity("1")}]


def test_another_allocation_of_the_claim_does_not_end_the_one_in_flight() -> None:
    """Its writer may read the claim again when the other one is gone, and still store its own."""
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(claim(), 1))
    tracker.signal(allocated(), "p1")
    tracker.set_claim(at(allocated(result("instance-2")), 2))
    assert devices(tracker) == {"instance-1", "instance-2"}


def test_a_write_without_an_answer_holds_its_devices_until_it_is_known() -> None:
    tracker = Tracker(DEFAULT)
    for news, left in (
        (at(claim(), 5), {"instance-1"}),
        (at(claim(), 6), set()),
        (at(allocated(), 6), {"instance-1"}),
    ):
        tracker.set_claim(at(claim(), 4))
        assert tracker.signal(allocated(), "p1")
        tracker.linger("uid-my-claim", 9.0, version=5)
        assert not tracker.signal(allocated(), "p2")
        assert not tracker.release("uid-my-claim", "p1")
        tracker.set_claim(news)
        assert devices(tracker) == left
        tracker.drop_overdue(9.0)
        tracker.remove_claim(news)
        assert devices(tracker) == set()
    assert tracker.in_flight == ()


def test_a_write_without_an_answer_is_given_up_after_a_while() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(claim(), 5))
    tracker.signal(allocated(), "p1")
    tracker.linger("uid-my-claim", 9.0, version=5)
    assert tracker.drop_overdue(8.0) == ()
    assert [one.metadata.name for one in tracker.drop_overdue(9.0)] == ["my-claim"]
    assert devices(tracker) == set()


def test_nobody_waits_for_a_claim_that_is_gone() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(at(claim(), 5))
    tracker.signal(allocated(), "p1")
    tracker.linger("uid-my-claim", 9.0, version=5)
    tracker.remove_claim(claim())
    assert tracker.in_flight == ()


def test_revision_grows_with_every_change() -> None:
    tracker = Tracker(DEFAULT)
    seen = [tracker.revision]
    tracker.set_claim(at(claim(), 1))
    seen.append(tracker.revision)
    tracker.signal(allocated(), "p1")
    seen.append(tracker.revision)
    tracker.release("uid-my-claim", "p1")
    seen.append(tracker.revision)
    tracker.catalogue.remove_class("none")
    assert seen == sorted(set(seen))
    assert tracker.revision == seen[-1]


def test_the_special_claim_of_a_pod_is_found_without_a_look_at_all() -> None:
    """Two of them, by accident: the newer one counts, and the older one's end does not hide it."""
    user = pod()
    notes = {"annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}, **owned_by(user)}
    old, new = claim(name="old", **notes), claim(name="new", **notes)
    tracker = Tracker(DEFAULT)
    for one in (claim(), old, new):
        tracker.set_claim(one)
    tracker.remove_claim(old)
    assert tracker.special_of(user.metadata.uid) == new
    tracker.remove_claim(new)
    assert tracker.special_of(user.metadata.uid) is None


def test_a_stored_allocation_is_in_flight_no_more_though_something_newer_is_known() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(claim())
    assert tracker.signal(allocated(), "uid-my-pod")
    tracker.set_claim(claim(resourceVersion="5"))
    tracker.store("uid-my-claim", allocated(meta={"resourceVersion": "4"}), 100.0)
    assert tracker.in_flight == ()


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("17", 17), ("x", 0), ("1x", 0), ("-1", 0), ("\u0661", 0), ("\u00b2", 0)]
)
def test_a_version_that_is_no_number_is_older_than_any(text: str, number: int) -> None:
    assert version_of(claim(resourceVersion=text)) == number


def test_a_stored_allocation_of_a_claim_that_is_gone_by_now_holds_nothing() -> None:
    tracker = Tracker(DEFAULT)
    assert tracker.signal(allocated(), "uid-my-pod")
    tracker.store("uid-my-claim", allocated(meta={"resourceVersion": "4"}), 100.0)
    assert tracker.in_flight == ()


def test_news_of_claims_that_nobody_knows_change_nothing() -> None:
    """A claim may go twice, and an allocation may be settled before who wrote it says that it does not know."""
    tracker = Tracker(DEFAULT)
    tracker.set_claim(allocated(name="mine"))
    before = tracker.revision, tracker.allocated()
    assert tracker.remove_claim(claim(name="other")) is None
    tracker.linger("uid-other", 9.0, version=5)
    assert (tracker.revision, tracker.allocated()) == before and tracker.in_flight == ()
    assert tracker.remove_claim(claim(name="mine")) is not None
    assert tracker.remove_claim(claim(name="mine")) is None
