"""Environments to evaluate expressions in, and what a device's selector sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from dray.cel import types as t
from dray.cel.costs.cost import Range, SizedNode
from dray.cel.environment import Environment
from dray.cel.faults import EvaluationError
from dray.cel.library import bindings, comprehensions, optionals, standard
from dray.cel.program import Program, compile_expression
from dray.cel.types import StructType, Type
from dray.cel.values import DefaultMap

LIBRARIES = (standard.LIBRARY, optionals.LIBRARY, bindings.LIBRARY, comprehensions.LIBRARY)
DEVICE = t.struct_of("kubernetes.DRADevice")
LIMIT = 1_000_000
DOMAIN = "d.example.com"
ATTRIBUTES = f'device.attributes["{DOMAIN}"]'

_SIZES: dict[str, tuple[int, str, str]] = {
    "attributes": (32, "domain", "ids"),
    "capacity": (32, "domain", "ids"),
    "ids": (32, "id", "value"),
    "domain": (63, "", ""),
    "id": (32, "", ""),
    "value": (64, "", ""),
    "driver": (63, "", ""),
    "allowMultipleAllocations": (1, "", ""),
}


def size_hint(node: SizedNode) -> Range | None:
    """How large the parts of a device can be, as Kubernetes' admission assumes."""
    if not node.path or node.path[0] != "device":
        return None
    place = "device"
    for step in node.path[1:]:
        keys = {"@keys": 1, "@values": 2, "@items": 2}
        if place == "device":
            place = step
        elif step in keys:
            place = str(_SIZES.get(place, (0, "", ""))[keys[step]])
        else:
            place = "value" if place == "ids" else ""
        if place not in _SIZES:
            return None
    return Range(0, _SIZES[place][0]) if place != "device" else None


@cache
def device_environment() -> Environment:
    """The variable `device`, with attributes of any type and capacities that are numbers here."""
    fields = {
        "driver": t.STRING,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, t.ANY)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.INT)),
        "allowMultipleAllocations": t.BOOL,
    }
    return Environment({"device": DEVICE}, LIBRARIES, structs=(StructType(DEVICE, fields),))


def selector(text: str, limit: int = LIMIT) -> Program:
    """A program over `device`."""
    return compile_expression(text, device_environment(), limit, size_hint)


def device(**attributes: Any) -> dict[str, Any]:
    """A device with these attributes in its driver's domain."""
    return {
        "driver": DOMAIN,
        "attributes": DefaultMap({DOMAIN: attributes} if attributes else {}, {}),
        "capacity": DefaultMap({DOMAIN: {"memory": 40}}, {}),
        "allowMultipleAllocations": False,
    }


def program(text: str, limit: int = 2**64 - 1, **variables: Type) -> Program:
    """A program over these variables."""
    return compile_expression(text, Environment(variables, LIBRARIES), limit)


def outcome(evaluate: Any, bindings: Mapping[str, Any]) -> Any:
    """The value, or the text of the error."""
    try:
        return evaluate(bindings)
    except EvaluationError as error:
        return f"error: {error}"


def evaluate(text: str, **bindings: Any) -> Any:
    """The value or error text of an expression over variables of any type; both ways must agree."""
    compiled = compile_expression(text, Environment(dict.fromkeys(bindings, t.DYN), LIBRARIES))
    fast, exact = outcome(compiled.evaluate, bindings), outcome(compiled.evaluate_exactly, bindings)
    assert repr(fast) == repr(exact) or fast == exact, f"{text}: {fast!r} is not {exact!r}"
    return exact
