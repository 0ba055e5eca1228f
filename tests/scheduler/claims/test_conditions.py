from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dray.api.resource import ResourceClaim
from dray.scheduler.claims.conditions import (
    Binding,
    Readiness,
    has_conditions,
    readiness,
    readiness_of_all,
    summary,
)
from dray.scheduler.claims.outcome import SUCCESS, failure, unresolvable, unschedulable
from dray.scheduler.claims.settings import Quirks
from tests.scheduler.claims.driving import DEFAULT, World, settings_with
from tests.scheduler.claims.model_server import ModelServer
from tests.scheduler.claims.objects import (
    DRIVER,
    NOW,
    allocated,
    claim,
    device,
    pod,
    result,
    slice_of,
)

USER = pod("my-claim")
WAITS: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
LATE = NOW - timedelta(minutes=10, seconds=1)
CORRECT = replace(DEFAULT, quirks=Quirks())
READY, PENDING = Readiness(Binding.READY), Readiness(Binding.PENDING)
FAILED = Readiness(
    Binding.FAILED, 'device binding failed: claim=my-claim, reason=why, message="it is broken"'
)
TIMED_OUT = Readiness(Binding.TIMED_OUT, "device binding timeout: claim=my-claim")


def reported(name: str = "instance-1", share: str | None = None, **conditions: str) -> dict[str, Any]:
    found = [
        {"type": key, "status": value, "reason": "why", "message": f"it is {key}"}
        for key, value in conditions.items()
    ]
    about = {"driver": DRIVER, "pool": "worker", "device": name, "conditions": found}
    return {**about, "shareID": share} if share else about


def waiting(*reports: dict[str, Any], **fields: Any) -> ResourceClaim:
    results = fields.pop("results", [result(**WAITS)])
    return allocated(*results, devices=list(reports), **fields)


TWO = [result(**WAITS), result("instance-2", "req-2", **WAITS)]
MIXED = [result(), result("instance-2", "req-2", **WAITS)]


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        pytest.param(allocated(), READY, id="without-binding-conditions"),
        pytest.param(waiting(), PENDING, id="no-status"),
        pytest.param(waiting(reported(ready="False")), PENDING, id="not-true"),
        pytest.param(waiting(reported(ready="True")), READY, id="succeeded"),
        pytest.param(waiting(reported(ready="True", broken="True")), FAILED, id="failed"),
        pytest.param(waiting(reported(broken="False")), PENDING, id="failure-not-true"),
        pytest.param(waiting(since=LATE), TIMED_OUT, id="timed-out"),
        pytest.param(waiting(reported(ready="True"), since=LATE), READY, id="late-but-ready"),
        pytest.param(waiting(reported("instance-2", ready="True"), results=MIXED), READY, id="mixed"),
        pytest.param(
            waiting(reported("instance-2", broken="True"), results=TWO),
            PENDING,
            id="first-device-hides-second",
        ),
    ],
)
def test_readiness(one: ResourceClaim, wanted: Readiness) -> None:
    assert readiness(one, DEFAULT, NOW) == wanted


def test_without_the_gate_all_are_ready() -> None:
    off = settings_with("DRADeviceBindingConditions=false")
    assert readiness(waiting(since=LATE), off, NOW) == READY


def test_shares_have_a_status_each() -> None:
    """Q16: kube-scheduler takes the first status of the device for all of its shares."""
    one, two = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    held = waiting(
        reported(share=one, ready="True"),
        reported(share=two, ready="False"),
        results=[result(shareID=one, **WAITS), result(shareID=two, **WAITS)],
    )
    assert readiness(held, DEFAULT, NOW) == READY
    assert readiness(held, CORRECT, NOW) == PENDING


def test_waiting_for_all_claims_ends() -> None:
    done = waiting(reported(ready="True"))
    start = NOW - DEFAULT.binding_timeout
    assert readiness_of_all([done, done], DEFAULT, start, NOW) == READY
    assert readiness_of_all([done, waiting()], DEFAULT, NOW, NOW) == PENDING
    assert readiness_of_all([done, waiting()], DEFAULT, start, NOW) == TIMED_OUT
    assert readiness_of_all([done, waiting(reported(broken="True"))], DEFAULT, NOW, NOW) == FAILED


def test_summary_names_what_lacks() -> None:
    held = waiting(reported(broken="True"), results=[*TWO, result("instance-3")])
    text = f"<driver={DRIVER}, pool=worker> instance-1 failed=[broken] pending=[ready]; "
    assert summary([held], CORRECT) == text + f"<driver={DRIVER}, pool=worker> instance-2 pending=[ready]"
    assert summary([allocated()], CORRECT) == ""
    assert has_conditions(held)
    assert not has_conditions(allocated())


FABRIC = slice_of("worker", device("instance-1", bindsToNode=True, **WAITS))
FREE = World([claim()], [FABRIC])


def test_dont_add_allocation_timestamp() -> None:
    plain = World([claim()], [slice_of()], settings=settings_with("DRADeviceBindingConditions=false")).drive(
        USER
    )
    stored = plain.claim().status.allocation
    assert stored is not None
    assert stored.allocation_timestamp is None


def test_add_allocation_timestamp() -> None:
    stored = World([claim()], [slice_of()]).drive(USER).claim().status.allocation
    assert stored is not None
    assert stored.allocation_timestamp == NOW


def test_a_stored_allocation_is_left_as_it_is() -> None:
    """An API server refuses any change of it, so a time is not added later."""
    cycle = World([allocated()]).drive(USER)
    assert cycle.bound == SUCCESS
    stored = cycle.claim().status.allocation
    assert stored is not None
    assert stored.allocation_timestamp is None


def test_add_allocation_timestamp_failure() -> None:
    def deallocated(server: ModelServer) -> None:
        server.change("my-claim", status={})

    cycle = World([allocated()], before_bind=deallocated).drive(USER)
    assert cycle.bound == failure("claim default/my-claim got deallocated elsewhere in the meantime")


def test_bind_claim_with_binding_conditions() -> None:
    """Written and reserved; from then on the pod waits for the device."""
    cycle = FREE.drive(USER)
    assert cycle.bound == SUCCESS
    assert has_conditions(cycle.claim())
    assert readiness_of_all([cycle.claim()], DEFAULT, NOW, NOW) == PENDING


GONE = unschedulable("deallocation of ResourceClaim completed")
UNAVAILABLE = {"worker": unresolvable("resourceclaim not available on the node")}


@pytest.mark.parametrize(
    ("one", "is_lost"),
    [
        pytest.param(
            waiting(reported(ready="True")), False, id="bound-claim-with-succeeded-binding-conditions"
        ),
        pytest.param(waiting(reported(broken="True")), True, id="bound-claim-with-failed-binding"),
        pytest.param(waiting(reported(), since=LATE), True, id="bound-claim-with-timed-out-binding"),
        pytest.param(
            waiting(reported("instance-2", broken="True"), results=MIXED),
            True,
            id="bound-claim-with-mixed-binding-conditions",
        ),
        pytest.param(allocated(since=LATE), False, id="bound-claim-without-binding-conditions"),
    ],
)
def test_a_claim_that_cannot_be_bound_is_deallocated(one: ResourceClaim, is_lost: bool) -> None:
    cycle = World([one]).drive(USER)
    if not is_lost:
        assert cycle.bound == SUCCESS
        return
    assert cycle.filtered == UNAVAILABLE
    assert cycle.postfiltered is not None
    assert cycle.postfiltered.status == GONE
    stored = cycle.claim().status
    assert (stored.allocation, stored.reserved_for, stored.devices) == (None, (), ())


def test_prebind_fail_with_binding_timeout() -> None:
    """Not late when filtered, late while it waits."""
    one = waiting(reported(), since=NOW - DEFAULT.binding_timeout + timedelta(seconds=10))
    cycle = World([one]).drive(USER)
    assert cycle.bound == SUCCESS
    later = NOW + timedelta(seconds=11)
    assert readiness_of_all([cycle.claim()], DEFAULT, NOW, NOW) == PENDING
    assert readiness_of_all([cycle.claim()], DEFAULT, NOW, later) == TIMED_OUT


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        pytest.param({"ready": "True"}, Binding.READY, id="multi-claims-binding-conditions-all-success"),
        pytest.param({"broken": "True"}, Binding.FAILED, id="multi-claims-binding-conditions-one-fail"),
    ],
)
def test_multi_claims(second: dict[str, str], wanted: Binding) -> None:
    claims = [
        waiting(reported(ready="True")),
        waiting(reported("instance-2", **second), results=[result("instance-2", **WAITS)], name="second"),
    ]
    assert readiness_of_all(claims, DEFAULT, NOW, NOW).binding is wanted
