"""Rules for DeviceTaintRule."""

from __future__ import annotations

from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_TAINT_RULE_CONDITIONS
from dray.api.resource.taint_rule import DeviceTaintRule, DeviceTaintSelector
from dray.api.validation.conditions import check_conditions
from dray.api.validation.device_taints import check_device_taint
from dray.api.validation.faults import CheckSelector, by_rule, by_rule_or_required, too_many

_SPEC: Final = Path("spec")


def check_taint_rule(
    new: DeviceTaintRule, old: DeviceTaintRule | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """A rule to be created, or to replace `old`, whose effect passes if it stays. It holds no CEL selectors."""
    errors: list[FieldError] = []
    if new.spec.device_selector is not None:
        errors += _selector(new.spec.device_selector, _SPEC.child("deviceSelector"))
    before = old.spec.taint if old is not None else None
    return errors + check_device_taint(new.spec.taint, _SPEC.child("taint"), before)


def _selector(selector: DeviceTaintSelector, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if selector.driver is not None:
        errors += by_rule_or_required(names.driver_name, selector.driver, path.child("driver"))
    if selector.pool is not None:
        errors += by_rule_or_required(names.pool_name, selector.pool, path.child("pool"))
    if selector.device is not None:
        errors += by_rule(names.dns_label, selector.device, path.child("device"))
    return errors


def check_taint_rule_status(new: DeviceTaintRule, old: DeviceTaintRule) -> list[FieldError]:
    """A new status; the caller has put the old spec and metadata under it."""
    path = Path("status").child("conditions")
    conditions = new.status.conditions
    errors = check_conditions(conditions, path)
    if len(conditions) > MAX_TAINT_RULE_CONDITIONS:
        errors.append(too_many(path, len(conditions), MAX_TAINT_RULE_CONDITIONS))
    return errors
