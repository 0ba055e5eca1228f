"""Which keys a change brings up: Kubernetes' TestEnqueuePodExtendedResourceClaims and the pod side of TestEventHandlers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.controllers.claims.known import Table
from dray.controllers.claims.triggers import keys_for_pod
from tests.controllers.objects import NS, OTHER_UID, claim, pod, user


@dataclass(frozen=True)
class Case:
    name: str
    pod: Pod
    expected: list[str]
    claims: tuple[ResourceClaim, ...] = ()
    is_gone: bool = False


EXTENDED = ["claim:default/x"]
CASES = [
    Case("pod with no resource claims", pod(), []),
    Case("pod with regular resource claims only", pod(claims={"a": "t"}, phase="Running"), ["pod:default/p"]),
    Case("pod with extended resource claim, running pod", pod(extended="x", phase="Running"), []),
    Case("pod with extended resource claim, completed pod", pod(extended="x", phase="Succeeded"), EXTENDED),
    Case("pod with extended resource claim, failed pod", pod(extended="x", phase="Failed"), EXTENDED),
    Case(
        "deleted pod with extended resource claim", pod(extended="x", phase="Running"), EXTENDED, is_gone=True
    ),
    Case(
        "pod with both regular and extended resource claims, completed",
        pod(claims={"a": "t"}, recorded={"a": "mine"}, extended="x", phase="Succeeded"),
        ["claim:default/mine", "claim:default/x"],
    ),
    Case(
        "recorded and there", pod(claims={"a": "t"}, recorded={"a": "mine"}), [], (claim("mine", owner="p"),)
    ),
    Case("recorded and gone", pod(claims={"a": "t"}, recorded={"a": "mine"}), ["pod:default/p"]),
    Case(
        "recorded and somebody else's",
        pod(claims={"a": "t"}, recorded={"a": "mine"}),
        ["pod:default/p"],
        (claim("mine", owner="p", owner_uid=OTHER_UID),),
    ),
    Case("none needed", pod(claims={"a": "t"}, recorded={"a": None}), []),
    Case("a missing shared claim", pod(static={"a": "s"}, node="n"), []),
    Case(
        "placed past the scheduler",
        pod(static={"a": "s"}, node="n"),
        ["pod:default/p"],
        (claim("s", allocated=True),),
    ),
    Case(
        "placed and reserved",
        pod(static={"a": "s"}, node="n"),
        [],
        (claim("s", allocated=True, users=[user()]),),
    ),
    Case("not placed yet", pod(static={"a": "s"}), [], (claim("s", allocated=True),)),
    Case("deleted while placed", pod(claims={"a": "t"}, node="n", deleted=True), []),
    Case("deleted before a node got it", pod(static={"a": "s"}, deleted=True), ["claim:default/s"]),
    Case(
        "ended, the claim of its extended resources never recorded",
        pod(phase="Failed"),
        ["claim:default/x"],
        (claim("x", owner="p"),),
    ),
    Case(
        "gone, its claim never recorded",
        pod(claims={"a": "t"}),
        ["claim:default/c"],
        (claim("c", owner="p"),),
        True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(case: Case) -> None:
    table = Table(claims={(NS, one.metadata.name): one for one in case.claims})
    assert [str(key) for key in keys_for_pod(case.pod, table, is_gone=case.is_gone)] == case.expected
