"""Which rules hold for which kind, and the doors to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from dray.api import names
from dray.api.field_errors import FieldError
from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.api.validation import claim_status, claims, core, pod_updates, pods, slices, taint_rules
from dray.api.validation.faults import CheckSelector, Rule
from dray.api.validation.metadata import MetadataRules, check_metadata, check_metadata_update
from dray.errors import InvalidError

T = TypeVar("T", bound=Model)
Check = Callable[[Any, Any, CheckSelector | None], list[FieldError]]
StatusCheck = Callable[[Any, Any], list[FieldError]]


@dataclass(frozen=True)
class _Rules:
    """Of one kind: its name, whether that rule holds again on update, the rest, and its status."""

    check: Check
    status: StatusCheck | None = None
    name: Rule = names.dns_subdomain
    prefix: Rule | None = None
    again: bool = False
    plain_finalizers: bool = False
    metadata_last: bool = False
    """On create, metadata is looked at only where nothing else is wrong."""


_RULES: Final[dict[str, _Rules]] = {
    "ResourceSlice": _Rules(slices.check_slice),
    "DeviceClass": _Rules(claims.check_class, prefix=names.path_segment, again=True),
    "ResourceClaim": _Rules(claims.check_claim, claim_status.check_claim_status, again=True),
    "ResourceClaimTemplate": _Rules(claims.check_template, again=True),
    "DeviceTaintRule": _Rules(taint_rules.check_taint_rule, taint_rules.check_taint_rule_status),
    "Pod": _Rules(pods.check_pod, pod_updates.check_pod_status, again=True),
    "Node": _Rules(core.check_node, lambda new, old: core.check_node(new, old, None), again=True),
    "Namespace": _Rules(core.check_namespace, core.check_namespace_status, name=names.dns_label),
    "Event": _Rules(core.check_event, name=names.path_segment, plain_finalizers=True, metadata_last=True),
    "ConfigMap": _Rules(core.check_config_map),
    "Lease": _Rules(core.check_lease, plain_finalizers=True),
}


def _metadata_rules(resource: Resource[Any], rules: _Rules, *, update: bool) -> MetadataRules:
    by_kind = not update or rules.again
    return MetadataRules(
        namespaced=resource.namespaced,
        name=rules.name if by_kind else names.path_segment,
        prefix=rules.prefix,
        plain_finalizers=rules.plain_finalizers,
    )


def validate(
    resource: Resource[T],
    new: T,
    old: T | None = None,
    *,
    check_selector: CheckSelector | None = None,
) -> list[FieldError]:
    """Everything wrong with an object that is to be created, or to replace `old` through the main door.

    The object has been defaulted, and what the server itself sets is in place (generated name, uid, the stored
    status). Without `check_selector` a selector's text is only checked for being there and for its length.
    """
    rules = _RULES[resource.kind]
    meta = _metadata_rules(resource, rules, update=old is not None)
    errors = rules.check(new, old, check_selector)
    if old is not None:
        return check_metadata_update(_metadata(new), _metadata(old), meta) + errors
    if errors and rules.metadata_last:
        return errors
    return check_metadata(_metadata(new), meta) + errors


def validate_status(resource: Resource[T], new: T, old: T) -> list[FieldError]:
    """Everything wrong with a status that is to replace the one of `old`; spec and metadata are the stored ones."""
    rules = _RULES[resource.kind]
    if rules.status is None:
        raise InvalidError(f"{resource} have no status of their own")
    meta = _metadata_rules(resource, rules, update=True)
    return check_metadata_update(_metadata(new), _metadata(old), meta) + rules.status(new, old)


def _metadata(value: Any) -> Any:
    return value.metadata
