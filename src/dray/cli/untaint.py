"""`dray untaint`: take back what `dray taint` did."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dray.cli.cluster import Asked, ask
from dray.cli.taint import add_target_arguments, find
from dray.errors import NotFoundError

if TYPE_CHECKING:
    from dray.api.taints import DeviceTaint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_target_arguments(
        parser,
        "KEY[=VALUE][:EFFECT]",
        "the taint; without an effect all of this key, a - at the end is ignored",
    )


def run(arguments: argparse.Namespace) -> int:
    """Delete the rules; says who else taints the devices."""
    from dray.cli.taint_plan import parse_taint

    taint = parse_taint(arguments.taint.removesuffix("-"), whole=False)
    return ask(arguments, lambda asked: _untaint(asked, arguments, taint))


async def _untaint(asked: Asked, arguments: argparse.Namespace, taint: DeviceTaint) -> int:
    from dray.cli.taint_plan import EFFECTS, other_sources, rule_name
    from dray.client.requests import DeleteOptions

    found = await find(asked, arguments.target, arguments.driver)
    effects = [taint.effect] if taint.effect else [str(one) for one in EFFECTS]
    names = {rule_name(target, taint.key, effect) for target in found.targets for effect in effects}
    every = found.rules
    own = [one for one in every if one.metadata.name in names and taint.value in ("", one.spec.taint.value)]
    rest = other_sources(
        taint.key, found.targets, [one for one in every if one not in own], found.objects.slices
    )
    if not own:
        raise _not_there(arguments.target, taint.key, rest)
    for one in own:
        options = DeleteOptions(dry_run=True) if arguments.dry_run else None
        await asked.client.delete(found.kind, one.metadata.name, options=options)
        print(f"devicetaintrule/{one.metadata.name} deleted{' (dry run)' if arguments.dry_run else ''}")
    if rest:
        print(f"{taint.key} is still there, from {', '.join(rest)}")
    return 0


def _not_there(where: str, key: str, rest: list[str]) -> NotFoundError:
    if rest:
        text = f"{where} has the taint {key} from {', '.join(rest)}, not from `dray taint` with these words: "
        text += "name the target as it was tainted, or delete the rule"
    else:
        text = f"{where} has no taint {key}; `dray get devices -o wide` shows all taints"
    return NotFoundError(text, kind="taint", name=key)
