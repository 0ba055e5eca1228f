"""Asks our CEL what Kubernetes was asked (`cases/*.jsonl`), and writes the answer as it was written there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.exact.conversions import double_to_string
from dray.cel.faults import CelError, EvaluationError, render
from dray.cel.library import bindings, kubernetes
from dray.cel.library.cidrs import CidrValue
from dray.cel.library.formats import FormatValue
from dray.cel.library.ips import IpValue
from dray.cel.library.quantity import QuantityValue
from dray.cel.library.semver import SemverValue
from dray.cel.library.urls import UrlValue
from dray.cel.program import Program, compile_expression
from dray.cel.types import Type
from dray.cel.values import Duration, Optional, Timestamp, Uint, Value, is_list, is_map
from tests.cases import read_cases

CASES = Path(__file__).parent / "cases"
Case = dict[str, Any]

_WRITTEN: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    str: lambda value: json.dumps(value, ensure_ascii=False),
    int: str,
    Uint: lambda value: f"{int(value)}u",
    float: lambda value: f"f{double_to_string(value)}",
    bytes: lambda value: f"b{value.hex()}",
    Duration: lambda value: f"d{value.nanoseconds}",
    Timestamp: lambda value: f"t{value.nanoseconds}",
    Optional: lambda value: f"some({show(value.content)})" if value.has_value else "none",
    QuantityValue: lambda value: f"q{value}",
    SemverValue: lambda value: f"v{value}",
    IpValue: lambda value: f"ip{value}",
    CidrValue: lambda value: f"cidr{value}",
    UrlValue: lambda value: f"url{value}",
    FormatValue: lambda value: f"format{value.name}",
    Type: lambda value: f"type {value.name}",
}


def show(value: Value) -> str:
    """The value in the notation of the cases; entries of maps are sorted."""
    write = _WRITTEN.get(value.__class__)
    if write is not None:
        return write(value)
    if is_list(value):
        return f"[{','.join(map(show, value))}]"
    assert is_map(value), value
    return f"{{{','.join(sorted(f'{show(key)}:{show(held)}' for key, held in value.items()))}}}"


@cache
def environment() -> Environment:
    """What the cases were asked in."""
    return Environment({"x": t.DYN}, (*kubernetes.LIBRARIES, bindings.LIBRARY))


def program(text: str) -> Program:
    """An expression in it."""
    return compile_expression(text, environment())


def evaluate(text: str) -> Value:
    """Its value; raises."""
    return program(text).evaluate({"x": 1})


def failure(text: str) -> str:
    """The error of an expression that compiles and fails."""
    try:
        value = evaluate(text)
    except EvaluationError as error:
        return str(error)
    raise AssertionError(f"{text} gives {show(value)}")


def cases_about(module: str) -> list[Case]:
    """The cases about a module, at least one."""
    return read_cases(CASES / f"{module}.jsonl")


def complaints(module: str) -> list[str]:
    """Where we answer otherwise than Kubernetes."""
    return [complaint for case in cases_about(module) for complaint in _complaints(case)]


def _complaints(case: Case) -> Iterator[str]:
    text = case["expression"]
    try:
        made = program(text)
    except CelError as error:
        if case.get("compileError", "?") not in (rendered := render(error, text)):
            yield f"{text}: {rendered}, not {case.get('compileError', 'accepted')}"
        return
    if "compileError" in case:
        yield f"{text} is accepted, not {case['compileError']}"
        return
    run = made.start({"x": 1})
    outcomes = [_outcome(lambda: made.finish(run)), _outcome(lambda: made.evaluate({"x": 1}))]
    expected = {"error": case["error"]} if "error" in case else {"value": case["value"]}
    for way, outcome in zip(("exact", "fast"), outcomes, strict=True):
        if outcome != expected:
            yield f"{text} ({way}): {outcome}, not {expected}"
    if list(made.estimated_cost) != case["estimate"] or run.cost != case["cost"]:
        yield f"{text}: costs {made.estimated_cost}, {run.cost}, not {case['estimate']}, {case['cost']}"


def _outcome(evaluate: Callable[[], Value]) -> dict[str, str]:
    try:
        return {"value": show(evaluate())}
    except EvaluationError as error:
        return {"error": str(error)}
