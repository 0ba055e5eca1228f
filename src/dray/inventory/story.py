"""One log line for everything about devices that an operator would want to know."""

from __future__ import annotations

from collections.abc import Iterable

from dray.drivers.contract import Device, Health, Problem
from dray.runtime.logs import get_log

_log = get_log("inventory")


def tell_changes(before: Iterable[Device], after: Iterable[Device]) -> None:
    """What came, went, turned unhealthy or healthy again, or has other nodes now."""
    old = {(device.resource, device.id): device for device in before}
    new = {(device.resource, device.id): device for device in after}
    for key in sorted(old.keys() - new.keys()):
        _log.info("device gone", **_facts(old[key]))
    for key in sorted(new.keys()):
        _tell(old.get(key), new[key])


def _tell(before: Device | None, after: Device) -> None:
    facts = _facts(after)
    reason = {"reason": after.reason} if after.reason else {}
    if before is None:
        _log.info("device found", health=after.health.value, **facts, **reason)
    elif (before.health, before.reason) != (after.health, after.reason):
        if after.health is Health.HEALTHY:
            _log.info("device healthy", **facts)
        else:
            _log.warning("device unhealthy", **facts, **reason)
    elif (before.paths, before.addresses) != (after.paths, after.addresses):
        _log.info("device changed", addresses=",".join(after.addresses), **facts)


def tell_problems(before: frozenset[Problem], after: Iterable[Problem]) -> frozenset[Problem]:
    """What is wrong, each thing once for as long as it is so. Gives what to pass as `before` the next time."""
    now = frozenset(after)
    for problem in sorted(now - before, key=lambda problem: (problem.path, problem.message)):
        _log.warning("noticed", path=problem.path, problem=problem.message)
    return now


def _facts(device: Device) -> dict[str, str]:
    label = {} if device.label in ("", device.id) else {"label": device.label}
    return {"resource": device.resource, "id": device.id, "kind": device.kind, **label}
