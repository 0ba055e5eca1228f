"""The scenarios of kube-scheduler's own plugin test, by their names: one cycle each, from PreEnqueue to PreBind."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.errors import Error, UnavailableError
from dray.scheduler.claims.outcome import SKIP, SUCCESS, Code, Status, failure, unresolvable, unschedulable
from dray.scheduler.claims.settings import Quirks
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.claims.writes import Write
from tests.scheduler.claims.driving import World, settings_with
from tests.scheduler.claims.model_server import ModelServer
from tests.scheduler.claims.objects import (
    CLASS,
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    exactly,
    first,
    node,
    owned_by,
    pod,
    request,
    result,
    slice_of,
    template_entry,
)

NAMED, MADE = pod("my-claim"), pod(template_entry(), made={"entry-0": "my-claim"})
HEALTHY = device("instance-1", attributes={"healthy": {"bool": True}})
BROKEN = {"cel": {"expression": f'device.attributes["{DRIVER}"].healthy'}}
NO_KEY = "selector #0: CEL runtime error: no such key: healthy"
CANNOT = unresolvable("cannot allocate all claims")
ELSEWHERE = unresolvable("resourceclaim not available on the node")
STILL = unschedulable("still not schedulable")
WORKERS = (node(), node("worker-2"), node("worker-3"))


@dataclass(frozen=True)
class Case:
    """`wrote`: how many writes there were. Statuses that are not given are success or not looked at."""

    world: World
    pod: Pod = NAMED
    enqueued: Status = SUCCESS
    prefiltered: Status = SUCCESS
    filtered: dict[str, Status] | None = None
    after: Status | None = None
    devices: list[str] | None = None
    bound: Status | None = None
    wrote: int | None = None


def fits(name: str = "my-claim", users: tuple[Pod, ...] = (NAMED,)) -> ResourceClaim:
    return allocated(name=name, users=users)


FULL = fits(users=tuple(pod(name=f"other-{one}") for one in range(256)))
CAREFUL = replace(settings_with(), quirks=Quirks())


def deleting(one: ResourceClaim) -> ResourceClaim:
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp=World().now)
    return msgspec.structs.replace(one, metadata=meta)


PLUMBING = {
    "empty": Case(World(), pod(), prefiltered=SKIP),
    "empty-with-extended-resources-enabled": Case(World(slices=[slice_of()]), pod(), prefiltered=SKIP),
    "claim-reference": Case(World([fits(), claim(name="other")]), devices=[], bound=SUCCESS, wrote=0),
    "claim-template": Case(
        World([allocated(users=(MADE,), meta=owned_by(MADE))]), MADE, devices=[], bound=SUCCESS, wrote=0
    ),
    "missing-claim": Case(
        World([claim()]),
        pod(template_entry()),
        enqueued=unresolvable('pod "default/my-pod": ResourceClaim not created yet'),
    ),
    "deleted-claim": Case(
        World([deleting(fits())]),
        enqueued=unresolvable('resourceclaim "my-claim" is being deleted'),
    ),
    "wrong-claim": Case(
        World([claim(**owned_by(MADE, uid="another"))]),
        MADE,
        enqueued=unresolvable(
            "ResourceClaim default/my-claim was not created for Pod default/my-pod (Pod is not owner)"
        ),
    ),
    "skip-bind": Case(World([fits()]), devices=[], bound=SUCCESS, wrote=0),
    "reserved-okay": Case(
        World([fits(users=(NAMED, *(pod(name=f"other-{one}") for one in range(255))))]),
        devices=[],
        bound=SUCCESS,
        wrote=0,
    ),
    "reserved-by-too-many": Case(
        World([FULL], settings=CAREFUL),
        prefiltered=unresolvable("resourceclaim in use"),
    ),
    # A real server refuses the 257th user; the one of these tests takes it.
    "reserved-by-too-many-as-kubernetes": Case(World([FULL]), filtered={"worker": SUCCESS}, bound=SUCCESS),
}

FREE = World([claim()], [slice_of()])


def in_flight(name: str, instance: str) -> World:
    """Another claim's allocation is on its way."""

    def start(tracker: Tracker) -> None:
        assert tracker.signal(allocated(result(instance), name=name), "uid-other")

    return replace(FREE, before_filter=start)


def no_finalizer(server: ModelServer) -> None:
    server.change("my-claim", finalizers=[])


def with_finalizer(server: ModelServer) -> None:
    server.change("my-claim", finalizers=[CLAIM_FINALIZER])


def deallocated(server: ModelServer) -> None:
    server.change("my-claim", status={})


def no_status_write(write: Write) -> Error | None:
    return UnavailableError("no answer") if write.subresource == "status" else None


ALLOCATION = {
    "no-resources": Case(World([claim()]), filtered={"worker": CANNOT}, after=STILL),
    "with-resources": Case(FREE, devices=["req-1=instance-1"], bound=SUCCESS, wrote=2),
    "with-resources-has-finalizer": Case(
        World([claim(finalizers=[CLAIM_FINALIZER])], [slice_of()]),
        devices=["req-1=instance-1"],
        bound=SUCCESS,
        wrote=1,
    ),
    "with-resources-finalizer-gets-removed": Case(
        World([claim(finalizers=[CLAIM_FINALIZER])], [slice_of()], before_bind=no_finalizer),
        devices=["req-1=instance-1"],
        bound=SUCCESS,
        wrote=3,
    ),
    "with-resources-finalizer-gets-added": Case(
        replace(FREE, before_bind=with_finalizer), devices=["req-1=instance-1"], bound=SUCCESS, wrote=2
    ),
    "exhausted-resources-in-informer-cache": Case(
        World([claim(), allocated(name="other")], [slice_of()]), filtered={"worker": CANNOT}, after=STILL
    ),
    "exhausted-resources-in-flight-claim": Case(
        in_flight("other", "instance-1"), filtered={"worker": CANNOT}, after=STILL
    ),
    "other-resources-in-flight-claim": Case(
        in_flight("other", "instance-2"), devices=["req-1=instance-1"], bound=SUCCESS, wrote=2
    ),
    "own-claim-in-flight": Case(
        in_flight("my-claim", "instance-2"),
        prefiltered=unresolvable("resource claim default/my-claim is in the process of being allocated"),
    ),
    "wrong-topology": Case(
        World([allocated(where="elsewhere")]),
        filtered={"worker": ELSEWHERE},
        after=unschedulable("deallocation of ResourceClaim completed"),
        wrote=1,
    ),
    "good-topology": Case(World([allocated()]), devices=[], bound=SUCCESS, wrote=1),
    "bind-failure": Case(
        World([allocated()], fails=no_status_write), devices=[], bound=failure("no answer"), wrote=1
    ),
    "bind-failure-concurrent-deallocation": Case(
        World([allocated()], before_bind=deallocated),
        devices=[],
        bound=failure("claim default/my-claim got deallocated elsewhere in the meantime"),
    ),
}

PICKY = claim(request(selectors=[BROKEN]))
TWO_OF_THREE = [slice_of(), slice_of("worker-2", HEALTHY), slice_of("worker-3", HEALTHY)]
MANY = World(
    [claim(*(request(f"req-{one}", 3) for one in range(5)))],
    [slice_of("worker", *(f"instance-{one}" for one in range(16)))],
)
CLASSES = {
    "missing-class": Case(
        replace(FREE, classes=()),
        prefiltered=unresolvable(f"request req-1: device class {CLASS} does not exist"),
    ),
    "claim-with-request-with-unknown-device-class": Case(
        World([claim(request(device_class="does-not-exist"))]),
        prefiltered=unresolvable("request req-1: device class does-not-exist does not exist"),
    ),
    "claim-parameters-CEL-runtime-error": Case(
        World([PICKY], [slice_of()]), filtered={"worker": failure(f"claim default/my-claim: {NO_KEY}")}
    ),
    "class-parameters-CEL-runtime-error": Case(
        replace(FREE, classes=[device_class(CLASS, BROKEN["cel"]["expression"])]),
        filtered={"worker": failure(f"class {CLASS}: {NO_KEY}")},
    ),
    "CEL-runtime-error-for-one-of-two-nodes": Case(
        World([PICKY], TWO_OF_THREE[:2], nodes=WORKERS[:2]),
        filtered={"worker": failure(f"claim default/my-claim: {NO_KEY}"), "worker-2": SUCCESS},
    ),
    "CEL-runtime-error-for-one-of-three-nodes": Case(
        World([PICKY], TWO_OF_THREE, nodes=WORKERS),
        filtered={
            "worker": failure(f"claim default/my-claim: {NO_KEY}"),
            "worker-2": SUCCESS,
            "worker-3": SUCCESS,
        },
    ),
    "timeout_disabled": Case(MANY, bound=SUCCESS),
    "unknown-request-type": Case(
        World([claim({"name": "req-1"})]),
        prefiltered=unresolvable("resource claim default/my-claim, request req-1: unknown request type"),
    ),
}

TAINTED = slice_of("worker", device("instance-1", taints=[{"key": "k", "effect": "NoSchedule"}]))
ADMIN = claim(request(adminAccess=True))
NO_ADMIN = "claim default/my-claim, request req-1: admin access is requested, but the feature is disabled"
TAINTS = {
    "tainted-device-disabled": Case(
        World([claim()], [TAINTED], settings=settings_with("DRADeviceTaints=false")), bound=SUCCESS
    ),
    "tainted-device-enabled": Case(World([claim()], [TAINTED]), filtered={"worker": CANNOT}, after=STILL),
    "request-admin-access-with-DRAAdminAccess-featuregate": Case(
        World([ADMIN, allocated(name="other")], [slice_of()]), devices=["req-1=instance-1"], bound=SUCCESS
    ),
    "request-admin-access-without-DRAAdminAccess-featuregate": Case(
        World([ADMIN], [slice_of()], settings=settings_with("DRAAdminAccess=false")),
        filtered={"worker": failure(NO_ADMIN)},
    ),
    "structured-ignore-allocated-admin-access": Case(
        World([claim(), allocated(result(adminAccess=True), name="other")], [slice_of()]),
        devices=["req-1=instance-1"],
        bound=SUCCESS,
    ),
}

LISTED = claim(first(exactly()))
PRIORITIZED = {
    "claim-with-prioritized-list": Case(
        World([LISTED], [slice_of()]), devices=["req-1/subreq-1=instance-1"], bound=SUCCESS
    ),
    "claim-with-prioritized-list-feature-disabled": Case(
        World([LISTED], [slice_of()], settings=settings_with("DRAPrioritizedList=false")),
        prefiltered=unresolvable(
            "resource claim default/my-claim, request req-1: has subrequests, but the DRAPrioritizedList "
            "feature is disabled"
        ),
    ),
    "claim-with-prioritized-list-unknown-device-class": Case(
        World([claim(first(exactly(device_class="does-not-exist")))]),
        prefiltered=unresolvable("request req-1/subreq-1: device class does-not-exist does not exist"),
    ),
}
CASES = PLUMBING | ALLOCATION | CLASSES | TAINTS | PRIORITIZED


@pytest.mark.parametrize("name", CASES)
def test_cycle(name: str) -> None:
    case = CASES[name]
    cycle = case.world.drive(case.pod)
    assert cycle.enqueued == case.enqueued
    assert cycle.prefiltered == case.prefiltered
    if case.filtered is not None:
        assert cycle.filtered == case.filtered
    assert (cycle.postfiltered.status if cycle.postfiltered else None) == case.after
    if case.devices is not None:
        assert cycle.devices == case.devices
    assert cycle.bound == case.bound
    if case.wrote is not None:
        assert len(cycle.writes) == case.wrote
    if cycle.bound == SUCCESS:
        used = cycle.claim().status
        assert [one.uid for one in used.reserved_for].count(case.pod.metadata.uid) == 1
        assert used.allocation is not None
        assert all(one.claim.metadata.name == "other" for one in cycle.tracker.in_flight)


def test_timeout() -> None:
    """A search that takes too long is an error that is tried again, and names the node."""
    world = replace(MANY, settings=settings_with(step_limit=3))
    status = world.drive(NAMED).filtered["worker"]
    assert status.code is Code.ERROR
    assert status.reason.startswith("node worker: timed out trying to allocate devices")


def test_what_is_written() -> None:
    """The claim in the API server after a cycle: finalizer, devices, user and time; the tracker knows it as assumed."""
    cycle = FREE.drive(NAMED)
    stored = cycle.claim()
    assert cycle.in_flight == ["my-claim"]
    assert stored.metadata.finalizers == (CLAIM_FINALIZER,)
    assert stored.status.allocation is not None
    assert stored.status.allocation.allocation_timestamp == FREE.now
    assert [(one.resource, one.name, one.uid) for one in stored.status.reserved_for] == [
        ("pods", "my-pod", "uid-my-pod")
    ]
    assert cycle.tracker.get("default", "my-claim") == stored


SCORED: dict[str, tuple[list[ResourceClaim], Pod, dict[str, int]]] = {
    "single-claim-prioritized-list-scoring": (
        [claim(first(exactly(2), exactly(1)))],
        NAMED,
        {"worker": 87, "worker-2": 100},
    ),
    "multiple-claims-prioritized-list-scoring": (
        [LISTED, claim(first(exactly(4), exactly(3), exactly(2), exactly(1)), name="second")],
        pod("my-claim", "second"),
        {"worker": 0, "worker-2": 100},
    ),
    "multiple-requests-prioritized-list-scoring": (
        [claim(first(exactly(3), exactly(1)), first(exactly(2), exactly(1), name="req-2"))],
        NAMED,
        {"worker": 0, "worker-2": 100},
    ),
}


@pytest.mark.parametrize("name", SCORED)
def test_scores(name: str) -> None:
    claims, user, wanted = SCORED[name]
    few = slice_of("worker", "instance-1")
    many = slice_of("worker-2", *(f"instance-{one}" for one in range(1, 5)))
    cycle = World(claims, [few, many], nodes=WORKERS[:2]).drive(user)
    assert cycle.scores == {name: one for name, one in wanted.items() if one}
    assert cycle.reserved is not None
    assert cycle.reserved.node == "worker-2"
    assert cycle.bound == SUCCESS
