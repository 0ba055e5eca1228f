"""`dray cel`: try a device selector before anyone else does, or answer recorded cases."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.feature_flags import add_feature_gates
from dray.cli.manifests import read_manifests, read_text, say_notes, seconds_above_zero
from dray.cli.tables import GREEN, PLAIN, RED, YELLOW, has_colour
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.allocation.selector_trial import Outcome, Trial
    from dray.api.resource.slice import ResourceSlice

_COLOURS = {"yes": GREEN, "no": RED, "error": YELLOW}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "expression", nargs="?", metavar="EXPR", help="the selector, over the variable `device`"
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="ResourceSlices (YAML or JSON, - for stdin): tells which of their devices match",
    )
    parser.add_argument(
        "--cases",
        metavar="FILE",
        help="answer the cases of a JSON Lines file (- for stdin), one line for each",
    )
    add_feature_gates(parser)
    parser.add_argument(
        "--timeout",
        type=seconds_above_zero,
        default=10.0,
        metavar="SECONDS",
        help="stop after so long, for all devices together (default 10)",
    )
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where there is an answer, also "no"; 1 where it fails on a device or would be refused as too complex; 2 where the
    text is no selector."""
    if (arguments.expression is None) == (arguments.cases is None):
        raise InvalidError("give a selector, as `dray cel EXPR -f FILE`, or --cases FILE", field="EXPR")
    if arguments.cases is not None:
        return _run_cases(arguments.cases)
    from dray.allocation.budget import Budget
    from dray.allocation.features import features_of_gates
    from dray.allocation.profiles import CORRECT
    from dray.allocation.selector_trial import try_selector
    from dray.runtime.clock import SystemClock
    from dray.semantics.features import enabled_gates, parse_feature_gates

    features = features_of_gates(enabled_gates(parse_feature_gates(arguments.feature_gates)), CORRECT)
    slices = _slices(arguments.filename)
    budget = Budget(arguments.timeout, SystemClock().monotonic)
    trial = try_selector(arguments.expression, slices, features, budget)
    if arguments.output == "json":
        import json

        print(json.dumps(as_document(trial), indent=2, ensure_ascii=False))
    elif trial.compile_error:
        print(f"dray: {trial.compile_error}", file=sys.stderr)
    else:
        print(as_table(trial, has_slices=bool(arguments.filename), colour=has_colour()))
    return _code(trial)


def _code(trial: Trial) -> int:
    if trial.compile_error:
        return exit_codes.BAD_INPUT
    failed = trial.is_too_complex or any(outcome.error for outcome in trial.outcomes)
    return exit_codes.REFUSED if failed else exit_codes.DONE


def _slices(names: Iterable[str]) -> tuple[ResourceSlice, ...]:
    from dray.allocation.cluster.cluster_dump import read_slices

    slices, notes = read_slices(read_manifests(names))
    say_notes(notes)
    return slices


def _run_cases(name: str) -> int:
    """A line in, a line out, as it comes: the file may be long."""
    import msgspec

    from dray.allocation.selector_cases import run_selector_case

    for number, line in enumerate(read_text(name).splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = msgspec.json.decode(line, type=dict[str, Any])
            answer = run_selector_case(case)
        except (msgspec.DecodeError, InvalidError) as error:
            raise InvalidError(f"{name}:{number}: not a case: {error}", field=f"{name}:{number}") from None
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    return exit_codes.DONE


def as_document(trial: Trial) -> dict[str, Any]:
    """The same for programs. Keys stay; others may join. What was not reached is null."""
    return {
        "expression": trial.expression,
        "compileError": trial.compile_error,
        "estimatedCost": trial.estimated_cost,
        "costLimit": trial.cost_limit,
        "tooComplex": trial.is_too_complex,
        "reads": [str(place) for place in trial.places],
        "devices": [_device_document(outcome) for outcome in trial.outcomes],
    }


def _device_document(outcome: Outcome) -> dict[str, Any]:
    part = outcome.false_part
    return {
        "driver": outcome.driver,
        "pool": outcome.pool,
        "device": outcome.device,
        "match": outcome.match,
        "error": outcome.error,
        "cost": outcome.cost,
        "falsePart": part and {"text": part.text, "position": part.position, "saw": dict(part.saw)},
    }


def as_table(trial: Trial, *, has_slices: bool, colour: bool) -> str:
    """The cost, what is read, and a line for each device with the part that was false."""
    verdict = "too complex, an API server refuses it" if trial.is_too_complex else "accepted"
    lines = [f"Estimated cost: at most {trial.estimated_cost} of {trial.cost_limit}: {verdict}"]
    lines.append(f"Reads: {', '.join(map(str, trial.places)) or 'nothing'}")
    if not has_slices:
        return "\n".join(lines)
    matching = sum(outcome.match is True for outcome in trial.outcomes)
    lines += [f"Matches {matching} of {len(trial.outcomes)} devices", ""]
    if not trial.outcomes:
        return "\n".join(lines[:-1])
    rows = [("DEVICE", "MATCH", "WHY"), *map(_row, trial.outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines += [_line(row, widths, colour) for row in rows]
    return "\n".join(lines)


def _row(outcome: Outcome) -> tuple[str, str, str]:
    name = f"{outcome.driver}/{outcome.pool}/{outcome.device}"
    if outcome.error:
        return name, "error", outcome.error
    if outcome.match:
        return name, "yes", ""
    return name, "no", " ".join(str(outcome.false_part or "").split())


def _line(row: tuple[str, str, str], widths: list[int], colour: bool) -> str:
    name, match, why = row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2]
    if colour and row[1] in _COLOURS:
        match = f"{_COLOURS[row[1]]}{match}{PLAIN}"
    return f"{name}   {match}   {why}".rstrip()
