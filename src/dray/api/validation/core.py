"""Rules for the small core kinds: Node, Namespace, Event, ConfigMap and Lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api import names
from dray.api.core import ConfigMap, Event, Lease, Namespace, Node
from dray.api.field_errors import FieldError, Path
from dray.api.meta import parse_micro_time
from dray.api.taints import Taint
from dray.api.validation.faults import (
    WHOLE_OBJECT,
    CheckSelector,
    by_rule,
    duplicate,
    forbidden,
    invalid,
    longer_than,
    not_supported,
    required,
    too_long,
)
from dray.api.validation.metadata import check_finalizer_domain
from dray.api.validation.quantities import check_amount
from dray.errors import InvalidError

_MAX_CONFIG_MAP: Final = 1024 * 1024
_MAX_EVENT_FIELD: Final = 128
_MAX_EVENT_MESSAGE: Final = 1024
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LEASE_STRATEGIES: Final = ("OldestEmulationVersion",)


def check_node(new: Node, old: Node | None, check_selector: CheckSelector | None) -> list[FieldError]:
    """A node through either door. The API server reports bad taints under `metadata`."""
    errors = _taints(new.spec.taints, Path("metadata").child("taints"))
    for field, amounts in (("capacity", new.status.capacity), ("allocatable", new.status.allocatable)):
        for resource in sorted(amounts):
            errors += check_amount(resource, amounts[resource], Path("status").child(field, resource))
    if old is None:
        return errors
    seen = set()
    for position, address in enumerate(new.status.addresses):
        if address in seen:
            errors.append(duplicate(Path("status").child("addresses").index(position), address))
        seen.add(address)
    for field, value, before in (
        ("podCIDRs", new.spec.pod_cidrs, old.spec.pod_cidrs),
        ("providerID", new.spec.provider_id, old.spec.provider_id),
    ):
        if before and value != before:
            text = f'node updates may not change {field} except from "" to valid'
            errors.append(forbidden(Path("spec").child(field), text))
    return errors


def _taints(taints: tuple[Taint, ...], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = set()
    for position, taint in enumerate(taints):
        here = path.index(position)
        errors += by_rule(names.label_key, taint.key, here.child("key"))
        if faults := names.label_value(taint.value):
            errors.append(invalid(here.child("value"), taint.value, ";".join(faults)))
        if not taint.effect:
            errors.append(required(here.child("effect")))
        elif taint.effect not in _EFFECTS:
            errors.append(not_supported(here.child("effect"), taint.effect, _EFFECTS))
        if (taint.key, taint.effect) in seen:
            errors.append(duplicate(here, taint))
        seen.add((taint.key, taint.effect))
    return errors


def check_namespace(
    new: Namespace, old: Namespace | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """A namespace; its finalizers cannot be changed by an update, so they are looked at once."""
    errors: list[FieldError] = []
    path = Path("spec").child("finalizers")
    for finalizer in new.spec.finalizers if old is None else ():
        errors += by_rule(names.label_key, finalizer, path) + check_finalizer_domain(finalizer, path)
    return errors


def check_namespace_status(new: Namespace, old: Namespace) -> list[FieldError]:
    """Active, or Terminating while it is being deleted."""
    path, phase = Path("status").child("Phase"), new.status.phase
    if new.metadata.deletion_timestamp is None and phase != "Active":
        return [invalid(path, phase, "may only be 'Active' if `deletionTimestamp` is empty")]
    if new.metadata.deletion_timestamp is not None and phase != "Terminating":
        return [invalid(path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
    return []


def check_event(new: Event, old: Event | None, check_selector: CheckSelector | None) -> list[FieldError]:
    """An event through core/v1: with `eventTime` it is of the new kind and must say who reports what."""
    path, about = Path("involvedObject").child("namespace"), new.involved_object.namespace
    namespace = new.metadata.namespace
    if new.event_time is None:
        agrees = namespace == about if about else namespace in ("", "default")
        return [] if agrees else [invalid(path, about, "does not match event.namespace")]
    errors = _micro_times({"eventTime": new.event_time}, Path(""))
    if not about and namespace not in ("default", "kube-system"):
        errors.append(invalid(path, about, "does not match event.namespace"))
    if not new.reporting_component:
        errors.append(required(Path("reportingComponent")))
    errors += by_rule(names.label_key, new.reporting_component, Path("reportingComponent"))
    for field, value in (
        ("reportingInstance", new.reporting_instance),
        ("action", new.action),
        ("reason", new.reason),
    ):
        if not value:
            errors.append(required(Path(field)))
        if longer_than(value, _MAX_EVENT_FIELD):
            errors.append(invalid(Path(field), "", f"can have at most {_MAX_EVENT_FIELD} characters"))
    if longer_than(new.message, _MAX_EVENT_MESSAGE):
        errors.append(invalid(Path("message"), "", f"can have at most {_MAX_EVENT_MESSAGE} characters"))
    return errors


def check_config_map(
    new: ConfigMap, old: ConfigMap | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """Keys become file names; all values together stay under 1 MiB; an immutable one stays as it is."""
    errors: list[FieldError] = []
    for key in sorted(new.data):
        errors += by_rule(names.config_map_key, key, Path("data").key(key))
        if key in new.binary_data:
            errors.append(invalid(Path("data").key(key), key, "duplicate of key present in binaryData"))
    for key in sorted(new.binary_data):
        errors += by_rule(names.config_map_key, key, Path("binaryData").key(key))
    size = sum(map(names.size, new.data.values())) + sum(map(len, new.binary_data.values()))
    if size > _MAX_CONFIG_MAP:
        errors.append(too_long(WHOLE_OBJECT, _MAX_CONFIG_MAP))
    if old is None or not old.immutable:
        return errors
    fields = (
        ("immutable", bool(new.immutable), True),
        ("data", new.data, old.data),
        ("binaryData", new.binary_data, old.binary_data),
    )
    text = "field is immutable when `immutable` is set"
    return errors + [forbidden(Path(field), text) for field, value, before in fields if value != before]


def check_lease(new: Lease, old: Lease | None, check_selector: CheckSelector | None) -> list[FieldError]:
    """Durations and counts make sense, and a preferred holder needs a strategy."""
    spec, path = new.spec, Path("spec")
    errors: list[FieldError] = []
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        here = path.child("leaseDurationSeconds")
        errors.append(invalid(here, spec.lease_duration_seconds, "must be greater than 0"))
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        here = path.child("leaseTransitions")
        errors.append(invalid(here, spec.lease_transitions, "must be greater than or equal to 0"))
    errors += _micro_times({"acquireTime": spec.acquire_time, "renewTime": spec.renew_time}, path)
    if spec.strategy is not None:
        errors += _strategy(spec.strategy, path.child("strategy", "strategy"))
    if spec.preferred_holder and not spec.strategy:
        here = path.child("preferredHolder")
        errors.append(forbidden(here, "may only be specified if `strategy` is defined"))
    return errors


def _strategy(strategy: str, path: Path) -> list[FieldError]:
    """A known one, or one with a domain. The API server says the field's name twice."""
    if "/" in strategy:
        return by_rule(names.label_key, strategy, path)
    return [] if strategy in _LEASE_STRATEGIES else [not_supported(path, strategy, _LEASE_STRATEGIES)]


def _micro_times(times: Mapping[str, str | None], path: Path) -> list[FieldError]:
    """The API server cannot even decode a day that does not exist."""
    errors = []
    for field, text in times.items():
        if text is None:
            continue
        try:
            parse_micro_time(text)
        except InvalidError as error:
            errors.append(invalid(path.child(field), text, str(error)))
    return errors
