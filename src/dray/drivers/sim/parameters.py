"""Opaque parameters of claims for simulated devices: `kind: SimConfig`, with which a test says what is to happen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from dray.api.codec import view
from dray.api.codec.unknown_fields import unknown_fields
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_OPAQUE_PARAMETERS_LENGTH
from dray.api.meta import Model
from dray.api.names import size
from dray.api.validation.faults import (
    forbidden,
    invalid,
    longer_than,
    not_supported,
    required,
    shortened,
    too_long,
    too_many,
)
from dray.errors import InvalidError

API_VERSION: Final = "sim.dray.internal/v1"
KIND: Final = "SimConfig"
MAX_ENV: Final = 32
MAX_ENV_NAME: Final = 64
MAX_ENV_VALUE: Final = 1024
MAX_TEXT: Final = 200
MAX_PREPARE_SECONDS: Final = 120.0
RESERVED: Final = ("SIM_", "DRA_")
"""Variables that begin so are the driver's own."""
_SHOWN: Final = 64
_is_env_name: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


class Mode(StrEnum):
    """How containers that share a claim use its devices; simulated, so they are only told."""

    EXCLUSIVE = "Exclusive"
    TIME_SLICING = "TimeSlicing"


class Interval(StrEnum):
    """How long a time slice is."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


class SimParameters(Model, frozen=True, kw_only=True):
    """What a claim or class may say. `fail_prepare` makes prepare fail with this text, after `prepare_seconds`."""

    api_version: str = ""
    kind: str = ""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    mode: str = ""
    interval: str = ""
    fail_prepare: str = ""
    prepare_seconds: float | None = None


def read_parameters(raw: Mapping[str, Any]) -> SimParameters:
    """Strict: InvalidError names the first field that is unknown, of the wrong type or out of bounds; all are in `causes`."""
    faults = [_short(fault) for fault in unknown_fields(dict(raw), SimParameters, Path())]
    if faults:
        raise _error(faults)
    parameters = view(dict(raw), SimParameters)
    if faults := _faults(parameters):
        raise _error(faults)
    return parameters


def check_parameters(raw: Mapping[str, Any]) -> None:
    """As the guard asks it when a claim or class is written."""
    read_parameters(raw)


def joined(given: Sequence[Mapping[str, Any]]) -> SimParameters:
    """All that apply as one. Later ones count more: variable by variable, mode with its interval, and each of the others."""
    found = SimParameters(api_version=API_VERSION, kind=KIND)
    for one in map(read_parameters, given):
        found = SimParameters(
            api_version=API_VERSION,
            kind=KIND,
            env={**found.env, **one.env},
            mode=one.mode or found.mode,
            interval=one.interval if one.mode else found.interval,
            fail_prepare=one.fail_prepare or found.fail_prepare,
            prepare_seconds=found.prepare_seconds if one.prepare_seconds is None else one.prepare_seconds,
        )
    return found


def _error(faults: Sequence[FieldError]) -> InvalidError:
    text = "; ".join(str(fault) for fault in faults[:5])
    return InvalidError(text, field=faults[0].field, causes=tuple(faults))


def _short(fault: FieldError) -> FieldError:
    """Keys come from strangers: one of a megabyte is not repeated."""
    field = shortened(fault.field, _SHOWN)
    return FieldError(field, fault.reason, shortened(fault.message, 4 * _SHOWN))


def _faults(one: SimParameters) -> list[FieldError]:
    faults = _identity(one.api_version, API_VERSION, Path("apiVersion"))
    faults += _identity(one.kind, KIND, Path("kind"))
    faults += _env(one.env, Path("env"))
    if one.mode and one.mode not in tuple(Mode):
        faults.append(not_supported(Path("mode"), shortened(one.mode, _SHOWN), Mode))
    if one.interval and one.interval not in tuple(Interval):
        faults.append(not_supported(Path("interval"), shortened(one.interval, _SHOWN), Interval))
    elif one.interval and one.mode != Mode.TIME_SLICING:
        faults.append(forbidden(Path("interval"), f"is for mode {Mode.TIME_SLICING} alone"))
    faults += _text(one.fail_prepare, MAX_TEXT, Path("failPrepare"))
    seconds = one.prepare_seconds
    if seconds is not None and not 0.0 <= seconds <= MAX_PREPARE_SECONDS:
        text = f"must be between 0 and {MAX_PREPARE_SECONDS:g}"
        faults.append(invalid(Path("prepareSeconds"), str(seconds), text))
    return faults


def _identity(value: str, wanted: str, path: Path) -> list[FieldError]:
    if not value:
        return [required(path, wanted)]
    return [] if value == wanted else [not_supported(path, shortened(value, _SHOWN), [wanted])]


def _env(env: Mapping[str, str], path: Path) -> list[FieldError]:
    if len(env) > MAX_ENV:
        return [too_many(path, len(env), MAX_ENV)]
    if sum(size(name) + size(value) for name, value in env.items()) > MAX_OPAQUE_PARAMETERS_LENGTH:
        return [too_long(path, MAX_OPAQUE_PARAMETERS_LENGTH)]
    faults: list[FieldError] = []
    for name, value in sorted(env.items()):
        here = path.key(shortened(name, _SHOWN))
        if longer_than(name, MAX_ENV_NAME):
            faults.append(too_long(here, MAX_ENV_NAME))
        elif not _is_env_name(name):
            text = "must be a name of letters, digits and '_' that does not begin with a digit"
            faults.append(invalid(here, name, text))
        elif name.startswith(RESERVED):
            faults.append(forbidden(here, f"names that begin with {' or '.join(RESERVED)} are the driver's"))
        faults += _text(value, MAX_ENV_VALUE, here)
    return faults


def _text(value: str, limit: int, path: Path) -> list[FieldError]:
    if longer_than(value, limit):
        return [too_long(path, limit)]
    return [] if value.isprintable() else [invalid(path, value, "must be printable text on one line")]
