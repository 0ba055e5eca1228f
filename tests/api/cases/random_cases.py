"""Random cases: a valid write with a few things broken. What comes of it is not known; two judges are compared."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.api.cases.case import Case, Document
from tests.api.validation_cases import CASES

KINDS: Final = (
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
    "Lease",
    "Pod",
    "ConfigMap",
    "Event",
    "Namespace",
    "Node",
)
_BASES: Final = [
    case for case in CASES if not case.faults and not case.ours_only and case.resource.kind in KINDS
]
_OF_PODS: Final = (
    "resourceClaims",
    "claims",
    "nodeSelector",
    "schedulingGates",
    "resourceClaimStatuses",
)
"""The rules for the rest of a pod are not all here, and admission changes tolerations."""
_LEFT_ALONE: Final = (
    "apiVersion",
    "kind",
    "namespace",
    "uid",
    "resourceVersion",
    "expression",
    "managedFields",
    "binaryData",
)
_UUID: Final = "5e0c9b8a-1f2e-4d3c-8b7a-0123456789ab"
_TEXTS: Final = (
    "", "a", "A", "a.b", "a/b", "a/b/c", "/a", "a/", "-", "a-", "_a", "9", "ä", "a b", "a\n", "é" * 40, "x" * 32, "x" * 33,
    "x" * 63, "x" * 64, "x" * 65, "x" * 129, "x" * 253, "x" * 254, "x" * 257, "d" * 64 + "/a", "a/" + "b" * 33, "gpu", "nic",
    "nic/fast", "gpu/fast", "gpu-0", "node-a", "gpu.example.com", "example.com/a_b", "kubernetes.io/x", "requests.x.io/y",
    "None", "NoSchedule", "NoExecute", "PreferNoSchedule", "All", "ExactCount", "Exists", "Equal", "In", "NotIn", "Gt",
    "DoesNotExist", "True", "FromClaim", "metadata.name", "1.0.0", "1.0", "v1.0.0", "1.2.3-0a+b", "1Gi", "1Mi", "-5", "1e3",
    "0", "1.5", "100", "1ki", "10.0.0.1/8", "10.0.0.0/8", "::1/128", "::1", "2026-01-01T00:00:00Z", "2026-01-01", _UUID,
    _UUID.upper(), "orphan", "foregroundDeletion", "example.com/gpu",
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 2, 5, 32, 33, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**63, 1.5)
_LENGTHS: Final = (2, 5, 9, 11, 17, 33, 49, 65, 129, 257)
_ANYTHING: Final[tuple[Any, ...]] = (None, True, 7, "text", [], {}, [1], {"a": 1})

Chance = random.Random
Spot = tuple[Any, Any]
"""A container and a key or position in it."""


def random_cases(seed: int, count: int) -> Iterator[Case]:
    """The same cases for the same seed."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        base = chance.choice(_BASES)
        new = copy.deepcopy(base.new)
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
            _break_something(new, chance, _OF_PODS if base.resource.kind == "Pod" else ())
        yield replace(base, name=f"random {seed}/{number} of {base.name}", new=new, faults=frozenset())


def _break_something(document: Document, chance: Chance, only: tuple[str, ...]) -> None:
    """Somewhere, or below the keys named only."""
    spots = list(_spots(document))
    if only:
        spots = [
            below for target, key in spots if key in only for below in [(target, key), *_spots(target[key])]
        ]
    if spots:
        chance.choice(_DEEDS)(chance.choice(spots), chance)


def _spots(value: Any) -> Iterator[Spot]:
    if isinstance(value, dict):
        for key in sorted(value):
            if key not in _LEFT_ALONE:
                yield value, key
                yield from _spots(value[key])
    elif isinstance(value, list):
        for position, item in enumerate(value[:4]):
            yield value, position
            yield from _spots(item)


def _drop(spot: Spot, chance: Chance) -> None:
    del spot[0][spot[1]]


def _other_value(spot: Spot, chance: Chance) -> None:
    target, key = spot
    value = target[key]
    if isinstance(value, bool):
        target[key] = not value
    elif isinstance(value, (int, float)):
        target[key] = chance.choice(_NUMBERS)
    elif isinstance(value, str):
        target[key] = chance.choice(_TEXTS)
    elif isinstance(value, list):
        _other_list(value, chance)
    elif isinstance(value, dict) and value:
        _rename(value, chance)


def _other_list(items: list[Any], chance: Chance) -> None:
    if not items:
        items.append(chance.choice(_ANYTHING))
    elif chance.random() < 0.5:
        items.append(copy.deepcopy(chance.choice(items)))
    else:
        items[:] = [copy.deepcopy(items[number % len(items)]) for number in range(chance.choice(_LENGTHS))]


def _rename(target: Document, chance: Chance) -> None:
    key = chance.choice(sorted(target))
    if key not in _LEFT_ALONE:
        target[chance.choice(_TEXTS)] = target.pop(key)


def _empty(spot: Spot, chance: Chance) -> None:
    target, key = spot
    target[key] = type(target[key])() if target[key] is not None else ""


def _null(spot: Spot, chance: Chance) -> None:
    spot[0][spot[1]] = None


def _other_type(spot: Spot, chance: Chance) -> None:
    spot[0][spot[1]] = copy.deepcopy(chance.choice(_ANYTHING))


_DEEDS: Final[tuple[Callable[[Spot, Chance], None], ...]] = (
    _drop,
    _empty,
    _null,
    _other_type,
    *([_other_value] * 6),
)
