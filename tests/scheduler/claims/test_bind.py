from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.client.requests import PatchType
from dray.errors import ConflictError, Error, InvalidError, ProtocolError, UnavailableError
from dray.scheduler.claims import bind, writes
from dray.scheduler.claims.extended import special_claim
from dray.scheduler.claims.outcome import SUCCESS, failure
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.reserve import Reserved
from dray.scheduler.claims.tracking import Tracker
from dray.semantics.claims import consumer_of
from tests.scheduler.claims.driving import DEFAULT
from tests.scheduler.claims.objects import NOW, allocated, allocation, as_allocation, claim, pod, result

USER, OTHER = pod("my-claim"), pod(name="other")
MINE = as_allocation(allocation())
NEW = bind.ClaimBinding(PodClaims(USER), 0, claim(), MINE)
JOIN = bind.ClaimBinding(PodClaims(USER), 0, allocated())
READY = claim(finalizers=[CLAIM_FINALIZER])
SEEN = {"uid": "uid-my-claim", "resourceVersion": "1"}
REFERENCE = {"resource": "pods", "name": "my-pod", "uid": "uid-my-pod"}


def deleting(one: ResourceClaim) -> ResourceClaim:
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp=NOW)
    return msgspec.structs.replace(one, metadata=meta)


@pytest.mark.parametrize(
    ("binding", "one", "reason"),
    [
        pytest.param(NEW, deleting(claim()), "got deleted in the meantime", id="deleted"),
        pytest.param(NEW, claim(uid="another"), "got deleted in the meantime", id="made-anew"),
        pytest.param(JOIN, deleting(allocated()), "got deleted in the meantime", id="allocated-and-deleted"),
        pytest.param(
            NEW, allocated(result("instance-2")), "got allocated elsewhere in the meantime", id="allocated"
        ),
        pytest.param(
            JOIN,
            allocated(result("instance-2")),
            "got allocated elsewhere in the meantime",
            id="freed-and-allocated",
        ),
        pytest.param(JOIN, claim(), "got deallocated elsewhere in the meantime", id="deallocated"),
    ],
)
def test_what_happened_meanwhile(binding: bind.ClaimBinding, one: ResourceClaim, reason: str) -> None:
    step = bind.next_step(binding, one, DEFAULT, NOW)
    assert step == bind.Step(status=failure(f"claim default/my-claim {reason}"))


def body_of(binding: bind.ClaimBinding, one: ResourceClaim) -> tuple[Any, str | None]:
    write = bind.next_step(binding, one, DEFAULT, NOW).write
    assert write is not None
    assert write.patch_type is PatchType.MERGE
    return dict(write.body), write.subresource


def test_first_the_finalizer() -> None:
    body, door = body_of(NEW, claim(finalizers=["theirs"]))
    assert (body, door) == ({"metadata": {"finalizers": ["theirs", CLAIM_FINALIZER], **SEEN}}, None)


def test_then_devices_user_and_time_at_once() -> None:
    body, door = body_of(NEW, READY)
    stamped = {**allocation(), "allocationTimestamp": "2030-01-01T00:00:00Z"}
    assert (body, door) == (
        {"metadata": SEEN, "status": {"allocation": stamped, "reservedFor": [REFERENCE]}},
        "status",
    )


def test_one_more_user() -> None:
    body, door = body_of(JOIN, allocated(users=(OTHER,)))
    users = [{"resource": "pods", "name": "other", "uid": "uid-other"}, REFERENCE]
    assert (body, door) == ({"metadata": SEEN, "status": {"reservedFor": users}}, "status")


def test_over_when_the_pod_uses_it() -> None:
    assert bind.next_step(JOIN, allocated(users=(OTHER, USER)), DEFAULT, NOW) == bind.Step(None, SUCCESS)


def test_own_write_whose_answer_was_lost() -> None:
    """The claim has these very devices: what is left is the reservation, or nothing."""
    body, _ = body_of(NEW, allocated(users=(OTHER,)))
    assert "allocation" not in body["status"]
    assert bind.next_step(NEW, allocated(users=(USER,)), DEFAULT, NOW) == bind.Step()


def test_only_claims_that_the_pod_does_not_use_yet() -> None:
    plan = PodClaims(USER, (allocated(users=(USER,)), claim(name="new"), special_claim(USER)), 2)
    found = bind.bindings(Reserved(plan, "worker", {1: MINE}))
    assert [(one.place, one.allocation) for one in found] == [(1, MINE)]
    assert bind.has_work(plan)
    assert not bind.has_work(PodClaims(USER))


STORING = writes.allocate_and_reserve(READY, MINE, consumer_of(USER))
FINALIZING = writes.add_finalizer(claim())


@pytest.mark.parametrize(
    ("write", "error", "is_held"),
    [
        pytest.param(STORING, UnavailableError("gone"), True, id="no-answer"),
        pytest.param(STORING, ProtocolError("what"), True, id="no-proper-answer"),
        pytest.param(STORING, InvalidError("no"), False, id="refused"),
        pytest.param(STORING, ConflictError("no"), False, id="conflict"),
        pytest.param(FINALIZING, UnavailableError("gone"), False, id="nothing-was-stored"),
    ],
)
def test_devices_of_a_write_without_answer_stay_held(
    write: writes.Write, error: Error, is_held: bool
) -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(READY)
    assert tracker.signal(allocated(), USER.metadata.uid)
    bind.note_error(tracker, NEW, READY, write, error, 0.0)
    assert bool(tracker.allocated().devices) is is_held
    assert bool(tracker.in_flight) is is_held


def test_bound() -> None:
    """Assumed, so that the informer may lag; in flight no more."""
    tracker = Tracker(DEFAULT)
    tracker.set_claim(READY)
    assert tracker.signal(allocated(), USER.metadata.uid)
    stored = allocated(users=(USER,), meta={"resourceVersion": "2"})
    bind.note_bound(tracker, NEW, stored, 0.0)
    assert tracker.get("default", "my-claim") == stored
    assert tracker.in_flight == ()
    assert len(tracker.allocated().devices) == 1


def test_bound_after_the_informer_saw_more() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(READY)
    assert tracker.signal(allocated(), USER.metadata.uid)
    tracker.set_claim(claim(resourceVersion="3"))
    bind.note_bound(tracker, NEW, allocated(meta={"resourceVersion": "2"}), 0.0)
    assert not tracker.allocated().devices
    assert tracker.in_flight == ()


def test_shared_devices_are_kept_for_the_others_when_one_fails() -> None:
    tracker = Tracker(DEFAULT)
    tracker.set_claim(READY)
    for user in (USER, OTHER):
        assert tracker.signal(allocated(), user.metadata.uid)
    bind.note_failed(tracker, NEW)
    bind.note_failed(tracker, NEW)
    assert len(tracker.allocated().devices) == 1
    bind.note_failed(tracker, replace(NEW, plan=PodClaims(OTHER)))
    assert not tracker.allocated().devices


def test_a_claim_whose_name_begins_with_a_digit_is_a_claim_like_others() -> None:
    one = claim(name="0-th", finalizers=["theirs"])
    body, _ = body_of(bind.ClaimBinding(PodClaims(USER), 0, one, MINE), one)
    assert body["metadata"]["finalizers"] == ["theirs", CLAIM_FINALIZER]
