from __future__ import annotations

from dataclasses import replace

import msgspec

from dray.api.limits import CLAIM_FINALIZER
from dray.client.requests import PatchType
from dray.scheduler.claims.extended import IN_MEMORY, special_claim
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.outcome import Status, failure, unresolvable
from dray.scheduler.claims.pod_claims import NodeAllocation, PodClaims
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.reserve import Reserved, reserve, unreserve
from dray.scheduler.claims.settings import Quirks, Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.claims.writes import Verb
from tests.scheduler.claims.driving import DEFAULT, World
from tests.scheduler.claims.objects import (
    NOW,
    allocated,
    allocation,
    as_allocation,
    claim,
    node,
    pod,
    result,
    slice_of,
)

USER, NODE = pod("a", "b"), node()
CLAIMS = (claim(name="a"), claim(name="b"))
TWO = slice_of("worker", "instance-1", "instance-2")
CORRECT = replace(DEFAULT, quirks=Quirks())


def filter_of(tracker: Tracker, shared: frozenset[str] = frozenset(), settings: Settings = DEFAULT) -> Filter:
    found = pre_filter(USER, tracker, settings, shared)
    assert found.status.is_success, found.status
    return Filter(found.plan, tracker, settings, NOW)


def devices_in_flight(tracker: Tracker) -> dict[str, list[str]]:
    found = {}
    for one in tracker.in_flight:
        assert one.claim.status.allocation is not None
        results = one.claim.status.allocation.devices.results
        found[one.claim.metadata.name] = [each.device for each in results]
    return found


def test_in_flight_as_it_will_be_stored() -> None:
    tracker = World(CLAIMS, [TWO]).start().tracker
    held = reserve(filter_of(tracker), NODE)
    assert isinstance(held, Reserved)
    assert devices_in_flight(tracker) == {"a": ["instance-1"], "b": ["instance-2"]}
    assert all(CLAIM_FINALIZER in one.claim.metadata.finalizers for one in tracker.in_flight)
    assert unreserve(held, CLAIMS, tracker, 0.0) == ()
    assert devices_in_flight(tracker) == {}
    assert not tracker.allocated().devices


def test_an_answer_from_before_a_change_is_made_again() -> None:
    tracker = World(CLAIMS, [slice_of("worker", "one", "two", "three")]).start().tracker
    asked = filter_of(tracker)
    old = asked.allocate(NODE)
    assert isinstance(old, NodeAllocation)
    tracker.set_claim(allocated(result("one"), name="other"))
    assert isinstance(reserve(asked, NODE, old), Reserved)
    assert devices_in_flight(tracker) == {"a": ["two"], "b": ["three"]}


def test_nothing_is_held_where_there_is_not_enough_any_more() -> None:
    tracker = World(CLAIMS, [TWO]).start().tracker
    asked = filter_of(tracker)
    old = asked.allocate(NODE)
    assert isinstance(old, NodeAllocation)
    tracker.set_claim(allocated(name="other"))
    assert reserve(asked, NODE, old) == unresolvable("cannot allocate all claims")
    assert tracker.in_flight == ()


def test_all_or_nothing() -> None:
    """The second claim got its devices elsewhere: the first one's are let go."""
    tracker = World(CLAIMS, [slice_of("worker", "one", "two", "three")]).start().tracker
    asked = filter_of(tracker)
    tracker.set_claim(allocated(result("three"), name="b", meta={"resourceVersion": "999"}))
    assert reserve(asked, NODE) == failure("claim default/b got allocated elsewhere in the meantime")
    assert tracker.in_flight == ()


def shared_first() -> tuple[Tracker, frozenset[str]]:
    """Claim a is on its way to instance-2 for another pod of the group."""
    tracker = World(CLAIMS, [TWO]).start().tracker
    assert tracker.signal(allocated(result("instance-2"), name="a"), "uid-other")
    return tracker, frozenset({"uid-a"})


def test_a_shared_allocation_stays_with_its_claim() -> None:
    tracker, shared = shared_first()
    held = reserve(filter_of(tracker, shared, CORRECT), NODE)
    assert isinstance(held, Reserved)
    assert devices_in_flight(tracker) == {"a": ["instance-2"], "b": ["instance-1"]}
    unreserve(held, CLAIMS, tracker, 0.0)
    assert devices_in_flight(tracker) == {"a": ["instance-2"]}


def test_quirk_pairs_a_shared_allocation_with_the_wrong_claim() -> None:
    """Q17. The tracker does not let it come to two claims with one device."""
    tracker, shared = shared_first()
    asked = filter_of(tracker, shared)
    made = asked.allocate(NODE)
    assert isinstance(made, NodeAllocation)
    devices = {place: one.devices.results[0].device for place, one in made.results.items()}
    assert devices == {0: "instance-1", 1: "instance-2"}
    assert isinstance(reserve(asked, NODE, made), Status)
    assert devices_in_flight(tracker) == {"a": ["instance-2"]}


def test_unreserve_takes_the_pod_out_of_claims_it_used() -> None:
    used = allocated(name="a", users=(USER, pod(name="other")))
    plan = PodClaims(USER, (used, allocated(name="b")), 2)
    (write,) = unreserve(Reserved(plan, "worker"), plan.claims, Tracker(DEFAULT), 0.0)
    assert (write.name, write.subresource, write.patch_type) == ("a", "status", PatchType.STRATEGIC)
    assert write.body == {
        "metadata": {"uid": "uid-a", "resourceVersion": "1"},
        "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-my-pod"}]},
    }


def test_unreserve_deletes_the_special_claim_if_it_was_stored() -> None:
    special = special_claim(USER)
    plan = PodClaims(USER, (special,), 0)
    held = Reserved(plan, "worker", {0: as_allocation(allocation())}, special)
    tracker = Tracker(DEFAULT)
    assert special.metadata.name == IN_MEMORY
    assert unreserve(held, plan.claims, tracker, 0.0) == ()
    meta = msgspec.structs.replace(special.metadata, name="stored", uid="real", finalizers=(CLAIM_FINALIZER,))
    stored = msgspec.structs.replace(special, metadata=meta)
    verbs = [(one.verb, one.uid) for one in unreserve(held, (stored,), tracker, 0.0)]
    assert verbs == [(Verb.PATCH, ""), (Verb.DELETE, "real")]


def test_what_is_stored_is_not_forgotten_when_the_pod_is_given_up() -> None:
    """The write was answered, but nobody told the tracker."""
    tracker = World((claim(name="a"), claim(name="b")), [TWO]).start().tracker
    held = reserve(filter_of(tracker), NODE)
    assert isinstance(held, Reserved)
    stored = allocated(name="a", users=(USER,), meta={"resourceVersion": "500"})
    unreserve(held, (stored, CLAIMS[1]), tracker, 0.0)
    assert {one.device for one in tracker.allocated().devices} == {"instance-1"}
    assert tracker.in_flight == ()
