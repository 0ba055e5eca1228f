"""Rules that claims, templates and classes share: selectors and driver configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from dray.api import names
from dray.api.codec.json_codec import encode, encode_hook
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_EXPRESSION_LENGTH, MAX_OPAQUE_PARAMETERS_LENGTH, MAX_SELECTORS
from dray.api.resource.device_class import DeviceSelector, OpaqueDeviceConfiguration
from dray.api.validation.faults import (
    CheckSelector,
    by_rule_or_required,
    check_list,
    invalid,
    longer_than,
    required,
    too_long,
)


def check_selectors(
    selectors: tuple[DeviceSelector, ...],
    path: Path,
    check_selector: CheckSelector | None,
    *,
    stored: bool = False,
) -> list[FieldError]:
    """The selectors of a class or request. Whether a text compiles, `check_selector` says where it is given."""

    def check(selector: DeviceSelector, here: Path) -> list[FieldError]:
        if selector.cel is None:
            return [required(here.child("cel"))]
        return _expression(selector.cel.expression, here.child("cel", "expression"), check_selector, stored)

    return check_list(selectors, MAX_SELECTORS, check, path)


def _expression(
    expression: str, path: Path, check_selector: CheckSelector | None, stored: bool
) -> list[FieldError]:
    if longer_than(expression, MAX_EXPRESSION_LENGTH):
        return [too_long(path, MAX_EXPRESSION_LENGTH)]
    if not expression:
        return [invalid(path, expression, "compilation failed: the expression is empty")]
    return check_selector(expression, path, stored) if check_selector is not None else []


def check_opaque(
    opaque: OpaqueDeviceConfiguration | None, path: Path, *, stored: bool = False
) -> list[FieldError]:
    """Configuration for a driver, the only kind there is. `path` is that of the entry around it."""
    here = path.child("opaque")
    if opaque is None:
        return [required(here)]
    errors = by_rule_or_required(names.driver_name, opaque.driver, here.child("driver"))
    if opaque.parameters is None:
        return [*errors, required(here.child("parameters"))]
    limit = None if stored else MAX_OPAQUE_PARAMETERS_LENGTH
    return errors + check_json_object(opaque.parameters, here.child("parameters"), limit)


class Configured(Protocol):
    """An entry of a `config` list, of a class, a claim or an allocation."""

    @property
    def opaque(self) -> OpaqueDeviceConfiguration | None:
        """The only kind of configuration."""


def same_parameters(new: Sequence[Configured], old: Sequence[Configured]) -> bool:
    """Whether two lists that compare equal also hold the same JSON: to Python, 1 equals true and 1.0."""
    return _parameters(new) == _parameters(old)


def _parameters(configs: Sequence[Configured]) -> bytes:
    values = [config.opaque.parameters if config.opaque is not None else None for config in configs]
    return msgspec.json.encode(values, order="sorted", enc_hook=encode_hook) if values else b""


def check_json_object(value: Any, path: Path, limit: int | None) -> list[FieldError]:
    """A JSON object of at most `limit` bytes, written compactly. What was stored before may be longer (None)."""
    if limit is not None and len(encode(value)) > limit:
        return [too_long(path, limit)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []
