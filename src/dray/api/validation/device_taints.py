"""Rules for device taints, the tolerations of claims, and binding conditions."""

from __future__ import annotations

from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_BINDING_CONDITIONS
from dray.api.taints import DeviceTaint, DeviceToleration
from dray.api.validation.faults import (
    by_rule,
    check_list,
    duplicates,
    invalid,
    itself,
    not_supported,
    required,
)

EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")


def check_device_taint(taint: DeviceTaint, path: Path, old: DeviceTaint | None = None) -> list[FieldError]:
    """A taint. An effect that was stored before passes even where it is unknown."""
    errors = by_rule(names.label_key, taint.key, path.child("key"))
    errors += by_rule(names.label_value, taint.value, path.child("value"))
    if old is not None and old.effect == taint.effect:
        return errors
    if not taint.effect:
        errors.append(required(path.child("effect")))
    return errors + _effect(taint.effect, path)


def _effect(effect: str, path: Path) -> list[FieldError]:
    if not effect or effect in EFFECTS:
        return []
    return [not_supported(path.child("effect"), effect, EFFECTS)]


def check_device_tolerations(tolerations: tuple[DeviceToleration, ...], path: Path) -> list[FieldError]:
    """All tolerations of a request. Their number is not limited, whatever the documentation says."""
    errors: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        errors += _toleration(toleration, path.index(position))
    return errors


def _toleration(toleration: DeviceToleration, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if toleration.key:
        errors += by_rule(names.label_key, toleration.key, path.child("key"))
    match toleration.operator:
        case "Exists":
            if toleration.value:
                text = "must be empty for operator `Exists`"
                errors.append(invalid(path.child("value"), toleration.value, text))
        case "Equal":
            errors += by_rule(names.label_value, toleration.value, path.child("value"))
        case "":
            errors.append(required(path.child("operator")))
        case operator:
            errors.append(not_supported(path.child("operator"), operator, _OPERATORS))
    return errors + _effect(toleration.effect, path)


def check_binding_conditions(
    wanted: tuple[str, ...], failures: tuple[str, ...], path: Path
) -> list[FieldError]:
    """Both lists of a device or result: label keys, without repetition or overlap, and never one without the other."""
    if not wanted and not failures:
        return []
    wanted_path, failures_path = path.child("bindingConditions"), path.child("bindingFailureConditions")
    errors = check_list(wanted, MAX_BINDING_CONDITIONS, _condition_type, wanted_path)
    errors += check_list(failures, MAX_BINDING_CONDITIONS, _condition_type, failures_path)
    errors += duplicates(wanted, itself, wanted_path) + duplicates(failures, itself, failures_path)
    for position, condition in enumerate(failures):
        if condition in wanted:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(failures_path.index(position), condition, text))
    if not wanted:
        text = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(wanted_path, wanted, text))
    if not failures:
        text = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(failures_path, failures, text))
    return errors


def _condition_type(condition: str, path: Path) -> list[FieldError]:
    return by_rule(names.label_key, condition, path)
