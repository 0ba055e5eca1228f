"""Taints and tolerations of nodes and of devices: the types, and who tolerates what.

Effects and operators stay plain strings, because a stored object may carry one from a newer Kubernetes; such an
operator tolerates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from dray.api.meta import Int64, Model, Time

_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64: Final = range(-(2**63), 2**63)


class Effect(StrEnum):
    """What a taint does. NONE is for devices only, PREFER_NO_SCHEDULE for nodes only."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """How a toleration compares values. LT and GT are for nodes only, behind an alpha gate."""

    EXISTS = "Exists"
    EQUAL = "Equal"
    LT = "Lt"
    GT = "Gt"


class Taint(Model, frozen=True, kw_only=True):
    """A taint on a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class Toleration(Model, frozen=True, kw_only=True):
    """A pod's tolerance for node taints. An empty key (with Exists) means all keys, an empty effect all effects."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class DeviceTaint(Model, frozen=True, kw_only=True):
    """A taint on a device, from its slice or from a DeviceTaintRule."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class DeviceToleration(Model, frozen=True, kw_only=True):
    """A request's tolerance for device taints; reads like `Toleration`."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class _Taint(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class _Toleration(_Taint, Protocol):
    @property
    def operator(self) -> str: ...


TaintT = TypeVar("TaintT", bound=_Taint)


def tolerates(toleration: _Toleration, taint: _Taint, *, compare_numbers: bool = False) -> bool:
    """Whether one toleration covers one taint, for nodes and devices alike.

    `compare_numbers` is the gate TaintTolerationComparisonOperators: without it Lt and Gt tolerate nothing. Devices
    have no such operators. An empty operator means Equal.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if compare_numbers:
            return _compare(toleration, taint)
        case _:
            return False


def _compare(toleration: _Toleration, taint: _Taint) -> bool:
    limit, value = _number(toleration.value), _number(taint.value)
    if limit is None or value is None:
        return False
    return value < limit if toleration.operator == "Lt" else value > limit


def _number(text: str) -> int | None:
    if not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def is_tolerated(taint: _Taint, tolerations: Iterable[_Toleration], *, compare_numbers: bool = False) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(tolerates(toleration, taint, compare_numbers=compare_numbers) for toleration in tolerations)


def untolerated(
    taints: Iterable[TaintT],
    tolerations: Iterable[_Toleration],
    *,
    effects: Iterable[str] = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE),
    compare_numbers: bool = False,
) -> tuple[TaintT, ...]:
    """The taints with one of the effects that nothing tolerates: what keeps a pod or a claim away.

    Effect None and effects from the future keep nobody away.
    """
    tolerations, effects = tuple(tolerations), frozenset(effects)
    return tuple(
        taint
        for taint in taints
        if taint.effect in effects and not is_tolerated(taint, tolerations, compare_numbers=compare_numbers)
    )
