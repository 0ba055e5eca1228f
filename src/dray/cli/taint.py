"""`dray taint`: keep pods off devices by a DeviceTaintRule, after saying who would have to go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dray.cli.cluster import Asked, add_cluster_arguments, ask
from dray.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from dray.api.kinds import Resource
    from dray.api.resource import DeviceTaintRule
    from dray.api.taints import DeviceTaint
    from dray.cli.taint_plan import Target, Victim
    from dray.cli.views.fleet import FleetDevice
    from dray.cli.views.objects import Objects

MANAGER = "dray-taint"
_VERSIONS = ("v1", "v1beta2", "v1alpha3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_target_arguments(parser, "KEY=VALUE:EFFECT", "the taint; EFFECT is NoSchedule, NoExecute or None")
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="do not ask; needed where pods would be evicted without a terminal",
    )


def add_target_arguments(parser: argparse.ArgumentParser, form: str, text: str) -> None:
    """What `dray untaint` has as well."""
    parser.add_argument(
        "target", metavar="NODE/DEVICE", help="one device, or NODE alone for all devices of a node"
    )
    parser.add_argument("taint", metavar=form, help=text)
    parser.add_argument("--driver", default="", metavar="D", help="of this driver only, like gpu.nvidia.com")
    parser.add_argument("--dry-run", action="store_true", help="say what would happen, and do not do it")
    add_cluster_arguments(parser, namespace=False)


def run(arguments: argparse.Namespace) -> int:
    """Say what it does to whom; ask; write the rules."""
    from dray.cli.taint_plan import parse_taint

    taint = parse_taint(arguments.taint)
    return ask(arguments, lambda asked: _taint(asked, arguments, taint))


@dataclass(frozen=True, slots=True)
class Found:
    """What the words of a command mean in this cluster."""

    objects: Objects
    kind: Resource[Any]
    rules: Sequence[DeviceTaintRule]
    devices: Sequence[FleetDevice]
    targets: Sequence[Target]


async def find(asked: Asked, where: str, driver: str) -> Found:
    """Read the cluster; InvalidError where it has no rules of this kind at all."""
    from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
    from dray.cli.taint_plan import find_devices, targets_of
    from dray.cli.views.fleet import fleet
    from dray.cli.views.objects import read_related
    from dray.runtime.clock import SystemClock

    kind, rules = await _rules(asked)
    wanted = (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES)
    objects = await read_related(asked, wanted, SystemClock().now)
    every = fleet(objects.slices, objects.claims, rules)
    devices = find_devices(where, driver, every, [one.metadata.name for one in objects.nodes])
    asked.say("")
    for note in objects.notes:
        print(f"note: {note}", file=sys.stderr)
    return Found(objects, kind, rules, devices, targets_of(where, driver, devices))


async def _rules(asked: Asked) -> tuple[Resource[Any], Sequence[DeviceTaintRule]]:
    """The kind as this server has it, and all rules there are."""
    from dray.api.kinds import DEVICE_TAINT_RULES

    for version in _VERSIONS:
        kind = replace(DEVICE_TAINT_RULES, version=version)
        try:
            return kind, (await asked.client.list(kind)).items
        except NotFoundError:
            continue
    raise InvalidError(
        "the server has no DeviceTaintRules: turn on its feature gates DRADeviceTaints and DRADeviceTaintRules and "
        "resource.k8s.io/v1beta2, or taint the device in its driver",
        field="resource.k8s.io",
    )


async def _taint(asked: Asked, arguments: argparse.Namespace, taint: DeviceTaint) -> int:
    from dray.cli.taint_plan import make_rule

    found = await find(asked, arguments.target, arguments.driver)
    rules = [make_rule(target, taint, found.objects.now) for target in found.targets]
    going = await _victims(asked, found, rules)
    _tell(found, taint, going)
    if not arguments.dry_run and not _may(going, is_sure=arguments.yes):
        print("nothing was changed", file=sys.stderr)
        return 1
    known = {one.metadata.name: one for one in found.rules}
    for rule in rules:
        await _write(asked, found.kind, rule, dry_run=arguments.dry_run)
        before = known.get(rule.metadata.name)
        told = "created" if before is None else "configured"
        if before is not None and before.spec.taint.value == taint.value:
            told = "unchanged"
        print(f"devicetaintrule/{rule.metadata.name} {told}{' (dry run)' if arguments.dry_run else ''}")
    return 0


async def _victims(asked: Asked, found: Found, rules: Sequence[DeviceTaintRule]) -> Sequence[Victim]:
    """By the rules of who evicts there: Kubernetes' controller heeds fewer tolerations than ours."""
    from dray.api.taints import Effect
    from dray.cli.taint_plan import victims
    from dray.controllers.taints.eviction import CORRECT, KUBERNETES_1_36

    if rules[0].spec.taint.effect != Effect.NO_EXECUTE:
        return ()
    is_ours = "dray" in (await asked.client.server_version()).git_version
    policy = CORRECT if is_ours else KUBERNETES_1_36
    objects = found.objects
    return victims(rules, objects.pods, objects.claims, objects.now, policy)


def _tell(found: Found, taint: DeviceTaint, going: Sequence[Victim]) -> None:
    from dray.api.taints import Effect
    from dray.apiserver.http.showing.ages import age
    from dray.cli.tables import listed
    from dray.cli.views.fleet import taint_text

    names = [one.id for one in found.devices]
    print(f"{taint_text(taint)} on {len(names)} device{'s' * (len(names) != 1)}: {listed(names, most=8)}")
    holders = sorted({pod for one in found.devices for each in one.holders for pod in each.pods})
    now = found.objects.now
    if going:
        print(f"{len(going)} pod{'s' * (len(going) != 1)} would be evicted:")
        for one in going:
            when = f", after {age(now, now + timedelta(seconds=one.after))}" if one.after else ""
            print(f"  {one.pod}   (claim {listed(one.claims)}{when})")
    elif taint.effect == Effect.NO_EXECUTE:
        print("no pod would be evicted")
    elif holders:
        print(f"no pod is evicted: what is held now stays with {listed(holders, most=8)}")
    if taint.effect == Effect.NONE:
        print("the effect None only informs: devices are given out as before")


def _may(going: Sequence[Victim], *, is_sure: bool) -> bool:
    """Nobody is evicted by accident."""
    if is_sure or not going:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidError("pods would be evicted, and nobody can be asked here: give --yes", field="--yes")
    return input("go on? [y/N] ").strip().lower() in ("y", "yes")


async def _write(asked: Asked, kind: Resource[Any], rule: DeviceTaintRule, *, dry_run: bool) -> None:
    from dray.cli.taint_plan import rule_document
    from dray.client.requests import WriteOptions

    document = rule_document(rule, kind.api_version)
    options = WriteOptions(dry_run=dry_run)
    await asked.client.apply(kind, document, manager=MANAGER, force=True, options=options)
