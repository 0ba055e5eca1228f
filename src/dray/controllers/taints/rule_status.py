"""What a DeviceTaintRule's status says about its eviction. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from dray.api.core import Pod
from dray.api.meta import Condition, format_time
from dray.api.resource import DeviceTaintRule, ResourceClaim
from dray.api.resource.taint_rule import EVICTION_IN_PROGRESS
from dray.api.taints import Effect
from dray.controllers.taints.eviction import ClaimOf, EvictionPolicy, Pools, pod_eviction
from dray.semantics.taints import selects

PERIOD: Final = 10.0
"""Seconds between two refreshes of one rule's status."""
_NOT_AGAIN: Final = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


class Counts(msgspec.Struct, frozen=True):
    """What the rule touches; for effect None: what it would touch."""

    pods: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0


def count(
    rule: DeviceTaintRule,
    pods: Iterable[Pod],
    claims: Iterable[ResourceClaim],
    claim_of: ClaimOf,
    pools: Pools,
    policy: EvictionPolicy,
) -> Counts:
    """Pods that the rule alone evicts, now or later, and devices it is about."""
    if rule.spec.taint.effect not in (Effect.NONE, Effect.NO_EXECUTE):
        return Counts()
    spec = msgspec.structs.replace(
        rule.spec, taint=msgspec.structs.replace(rule.spec.taint, effect=Effect.NO_EXECUTE.value)
    )
    acting = msgspec.structs.replace(rule, spec=spec)
    bare = Pools()
    hit = [pod for pod in pods if pod_eviction(pod, claim_of, bare, (acting,), policy) is not None]
    published = [
        device
        for one in pools.current()
        for device in one.spec.devices or ()
        if selects(
            rule,
            one.spec.driver,
            one.spec.pool.name,
            device.name,
            bare_selects_all=policy.bare_rule_evicts_all,
        )
    ]
    allocated = [
        one
        for claim in claims
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
        if selects(rule, one.driver, one.pool, one.device, bare_selects_all=policy.bare_rule_evicts_all)
    ]
    namespaces = {pod.metadata.namespace for pod in hit}
    return Counts(len(hit), len(namespaces), len(published), len(allocated))


def present(rule: DeviceTaintRule) -> Condition | None:
    """The condition as it stands."""
    return next((one for one in rule.status.conditions if one.type == EVICTION_IN_PROGRESS), None)


def wait(rule: DeviceTaintRule, now: datetime) -> float | None:
    """Seconds until the status may be written again, 0 for now; None where it has been said for good (effect None)."""
    known = present(rule)
    if known is None or known.observed_generation != rule.metadata.generation:
        return 0.0
    if rule.spec.taint.effect == Effect.NONE:
        return None
    if known.last_transition_time is None:
        return 0.0
    return min(PERIOD, max(0.0, PERIOD - (now - known.last_transition_time).total_seconds()))


def new_condition(
    rule: DeviceTaintRule, counts: Counts, evicted: int, now: datetime
) -> dict[str, Any] | None:
    """The condition to write, None where it says so already. `evicted`: pods since this controller started."""
    status, reason, message = _said(rule, counts, evicted)
    if evicted:
        message = f"{message} {_pods(evicted)} evicted since starting the controller.".strip()
    generation, known = rule.metadata.generation, present(rule)
    if known is not None and (known.status, known.reason, known.message, known.observed_generation) == (
        status,
        reason,
        message,
        generation,
    ):
        return None
    return {
        "type": EVICTION_IN_PROGRESS,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": format_time(now),
    }


def _said(rule: DeviceTaintRule, counts: Counts, evicted: int) -> tuple[str, str, str]:
    match rule.spec.taint.effect:
        case Effect.NO_EXECUTE if counts.pods:
            needs = "needs" if counts.pods == 1 else "need"
            text = f"{_pods(counts.pods)} {needs} to be evicted in {_namespaces(counts.namespaces)}."
            return "True", "PodsPendingEviction", text
        case Effect.NO_EXECUTE:
            return "False", "Completed" if evicted else "NotStarted", ""
        case Effect.NONE:
            text = (
                f"{_devices(counts.published, 'published')} {_devices(counts.allocated, 'allocated')} "
                f"{_pods(counts.pods)} would be evicted in {_namespaces(counts.namespaces)} {_NOT_AGAIN}"
            )
            return "False", "NoEffect", text
        case _:
            return "False", "OtherEffect", "Eviction only happens for the NoExecute effect."


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"


def _devices(number: int, kind: str) -> str:
    return f"1 {kind} device selected." if number == 1 else f"{number} {kind} devices selected."
