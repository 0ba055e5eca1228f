"""What `dray taint` and `dray untaint` mean by their words: which devices, which rules, and who would have to go. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dray.api.core import Pod
from dray.api.meta import ObjectMeta
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRuleSpec, DeviceTaintSelector
from dray.api.taints import DeviceTaint, Effect
from dray.cli.kind_names import nearest
from dray.cli.views.fleet import FleetDevice
from dray.controllers.taints.eviction import EvictionPolicy, Pools, claim_eviction, pod_eviction
from dray.errors import InvalidError, NotFoundError
from dray.semantics.claims import claim_names
from dray.semantics.pools import current

EFFECTS: Final = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE, Effect.NONE)
ALL_DEVICES: Final = ("", "*")
_UNFIT: Final = re.compile(r"[^a-z0-9]+")
_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class Target:
    """What one rule is about: a device, or a whole pool (`device` empty). `driver` empty: whichever."""

    pool: str
    device: str = ""
    driver: str = ""

    def selector(self) -> DeviceTaintSelector:
        """As a rule has it."""
        return DeviceTaintSelector(
            driver=self.driver or None, pool=self.pool or None, device=self.device or None
        )


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that must go, because of these claims; `after` seconds, where its claims tolerate the taint for a while."""

    pod: str
    claims: tuple[str, ...]
    after: int = 0


def parse_taint(text: str, *, whole: bool = True) -> DeviceTaint:
    """`KEY=VALUE:EFFECT` or `KEY:EFFECT`; the effect may be left out where not `whole`."""
    head, _, effect = text.rpartition(":") if ":" in text else (text, "", "")
    key, _, value = head.partition("=")
    if not key or (whole and not effect) or (effect and effect not in EFFECTS):
        form = "KEY=VALUE:EFFECT" if whole else "KEY, KEY:EFFECT or KEY=VALUE:EFFECT"
        raise InvalidError(
            f"taint {text!r} must be {form}, with the effect {', '.join(EFFECTS[:-1])} or {EFFECTS[-1]}",
            field="TAINT",
        )
    return DeviceTaint(key=key, value=value, effect=effect)


def find_devices(
    where: str, driver: str, devices: Iterable[FleetDevice], nodes: Iterable[str]
) -> list[FleetDevice]:
    """Those that `NODE`, `NODE/*` or `NODE/DEVICE` means. InvalidError where two drivers call a device the same."""
    node, _, name = where.partition("/")
    own = [one for one in devices if node in (one.node, one.pool) and driver in ("", one.driver)]
    if not own:
        known = sorted({one.node or one.pool for one in devices} | set(nodes))
        raise _no_device(node, driver, known)
    if name in ALL_DEVICES:
        return own
    found = [one for one in own if one.device.name == name]
    if not found:
        near = nearest(name, (one.device.name for one in own))
        hint = f"did you mean {node}/{near}?" if near else f"`dray describe node {node}` shows its devices"
        raise NotFoundError(f'node {node} has no device "{name}"; {hint}', kind="device", name=name)
    drivers = sorted({one.driver for one in found})
    if len(drivers) > 1:
        raise InvalidError(
            f"{where} is a device of {' and of '.join(drivers)}; say which with --driver", field="--driver"
        )
    return found


def _no_device(node: str, driver: str, known: Sequence[str]) -> NotFoundError:
    if node in known:
        of = f" of driver {driver}" if driver else ""
        return NotFoundError(f"node {node} offers no devices{of} through DRA", kind="device", name=node)
    near = nearest(node, known)
    hint = f"did you mean {near}?" if near else "`dray get devices` shows all"
    return NotFoundError(f'no node "{node}" with devices; {hint}', kind="node", name=node)


def targets_of(where: str, driver: str, devices: Sequence[FleetDevice]) -> list[Target]:
    """One rule each: the device, or each pool of the node, so that devices that come later are meant too."""
    name = where.partition("/")[2]
    if name in ALL_DEVICES:
        return [Target(pool, driver=driver) for pool in sorted({one.pool for one in devices})]
    return sorted({Target(one.pool, name, one.driver) for one in devices}, key=lambda one: one.pool)


def rule_name(target: Target, key: str, effect: str) -> str:
    """The same for the same words, so that the taint is found again. The value is not in it: there is one for each key."""
    parts = (target.driver, target.pool, target.device, key, effect)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    shown = _UNFIT.sub("-", "-".join((target.pool, target.device or "all", key, effect)).lower()).strip("-")
    return f"dray-{shown[:_NAME].rstrip('-')}-{digest}"


def make_rule(target: Target, taint: DeviceTaint, now: datetime) -> DeviceTaintRule:
    """As it would be if it were made now."""
    name = rule_name(target, taint.key, taint.effect)
    told = DeviceTaint(key=taint.key, value=taint.value, effect=taint.effect, time_added=now)
    spec = DeviceTaintRuleSpec(device_selector=target.selector(), taint=told)
    return DeviceTaintRule(metadata=ObjectMeta(name=name, uid=name), spec=spec)


def rule_document(rule: DeviceTaintRule, api_version: str) -> dict[str, Any]:
    """To send. When it was added is the server's to say."""
    selector, taint = rule.spec.device_selector or DeviceTaintSelector(), rule.spec.taint
    chosen = {"driver": selector.driver, "pool": selector.pool, "device": selector.device}
    told = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {
        "apiVersion": api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": rule.metadata.name},
        "spec": {
            "deviceSelector": {name: value for name, value in chosen.items() if value},
            "taint": {name: value for name, value in told.items() if value},
        },
    }


def victims(
    rules: Sequence[DeviceTaintRule],
    pods: Iterable[Pod],
    claims: Iterable[ResourceClaim],
    now: datetime,
    policy: EvictionPolicy,
) -> list[Victim]:
    """The pods that these rules alone would evict, by name, with the claims they would lose."""
    by_name = {(one.metadata.namespace, one.metadata.name): one for one in claims}
    nothing = Pools(())
    found = []
    for pod in pods:
        space = pod.metadata.namespace
        eviction = pod_eviction(pod, lambda space, name: by_name.get((space, name)), nothing, rules, policy)
        if eviction is None:
            continue
        lost = tuple(
            f"{space}/{name}"
            for name in sorted(claim_names(pod))
            if (claim := by_name.get((space, name))) is not None
            and claim_eviction(claim, pod.spec.node_name, nothing, rules, policy) is not None
        )
        after = max(0, int((eviction.when - now).total_seconds()))
        found.append(Victim(f"{space}/{pod.metadata.name}", lost, after))
    return sorted(found, key=lambda one: one.pod)


def other_sources(
    key: str, targets: Sequence[Target], rules: Iterable[DeviceTaintRule], slices: Iterable[ResourceSlice]
) -> list[str]:
    """Who else taints these devices with the key: what `dray untaint` does not take back."""
    found = set()
    for target in targets:
        for rule in rules:
            chosen = rule.spec.device_selector
            if rule.spec.taint.key == key and chosen is not None and _overlap(chosen, target):
                found.add(f"rule {rule.metadata.name}")
        for one in current(slices):
            own = one.spec.driver if target.driver in ("", one.spec.driver) else ""
            if not own or one.spec.pool.name != target.pool:
                continue
            if any(
                taint.key == key
                for device in one.spec.devices or ()
                if target.device in ("", device.name)
                for taint in device.taints
            ):
                found.add(f"driver {own}")
    return sorted(found)


def _overlap(chosen: DeviceTaintSelector, target: Target) -> bool:
    pairs = ((chosen.driver, target.driver), (chosen.pool, target.pool), (chosen.device, target.device))
    return all(not one or not other or one == other for one, other in pairs)
