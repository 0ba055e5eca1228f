"""Rules for Pod: its claims in full, and of the rest those Dray relies on."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dray.api import names
from dray.api.core.pod import Affinity, Pod, PodResourceClaim, PodSpec
from dray.api.field_errors import FieldError, Path
from dray.api.taints import Toleration
from dray.api.validation.containers import check_choice, check_containers
from dray.api.validation.faults import (
    WHOLE_OBJECT,
    CheckSelector,
    by_rule,
    by_rule_or_required,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from dray.api.validation.metadata import check_labels
from dray.api.validation.node_selectors import check_node_selector, check_node_selector_term
from dray.api.validation.pod_updates import check_pod_update

_SPEC: Final = Path("spec")
_MAX_INT32: Final = 2**31 - 1
_MIRROR: Final = "kubernetes.io/config.mirror"
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_pod(new: Pod, old: Pod | None, check_selector: CheckSelector | None) -> list[FieldError]:
    """A pod to be created or changed, after defaulting. A pod holds no CEL selectors."""
    errors = _spec(new)
    if old is not None:
        return errors + check_pod_update(new, old)
    if new.spec.ephemeral_containers:
        errors.append(forbidden(_SPEC.child("ephemeralContainers"), "cannot be set on create"))
    if new.spec.node_name and new.spec.scheduling_gates:
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden(_SPEC.child("nodeName"), text))
    return errors


def _spec(pod: Pod) -> list[FieldError]:
    spec = pod.spec
    volumes, errors = _volumes(spec.volumes, _SPEC.child("volumes"))
    errors += _claims(pod)
    errors += _all_containers(spec, volumes)
    errors += _scalars(spec)
    errors += check_labels(spec.node_selector, _SPEC.child("nodeSelector"))
    if spec.affinity is not None:
        errors += _affinity(spec.affinity, _SPEC.child("affinity", "nodeAffinity"))
    seen: set[str] = set()
    for position, gate in enumerate(spec.scheduling_gates):
        here = _SPEC.child("schedulingGates").index(position)
        errors += by_rule(names.label_key, gate.name, here)
        if gate.name in seen:
            errors.append(duplicate(here, gate.name))
        seen.add(gate.name)
    if spec.scheduling_group is not None:
        errors += _group(spec.scheduling_group, _SPEC.child("schedulingGroup", "podGroupName"))
    return errors + check_tolerations(spec.tolerations, _SPEC.child("tolerations"))


def _group(group: dict[str, Any], path: Path) -> list[FieldError]:
    """Which scheduling group the pod belongs to; there is one kind of them so far. It need not exist."""
    name = group.get("podGroupName")
    if not isinstance(name, str):
        return [invalid(path, name, "must specify one of: `podGroupName`")]
    return by_rule(names.dns_subdomain, name, path)


def _scalars(spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.termination_grace_period_seconds is None:
        errors.append(required(_SPEC.child("terminationGracePeriodSeconds")))
    errors += check_choice(spec.restart_policy, _RESTART_POLICIES, _SPEC.child("restartPolicy"))
    errors += check_choice(spec.dns_policy, _DNS_POLICIES, _SPEC.child("dnsPolicy"))
    if spec.preemption_policy is not None:
        errors += check_choice(spec.preemption_policy, _PREEMPTION, _SPEC.child("preemptionPolicy"))
    for field, value, rule in (
        ("serviceAccountName", spec.service_account_name, names.dns_subdomain),
        ("nodeName", spec.node_name, names.dns_subdomain),
        ("hostname", spec.hostname, names.dns_label),
        ("subdomain", spec.subdomain, names.dns_label),
        ("priorityClassName", spec.priority_class_name, names.dns_subdomain),
    ):
        if value:
            errors += by_rule(rule, value, _SPEC.child(field))
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = f"must be between 1 and {_MAX_INT32}, inclusive"
        errors.append(invalid(_SPEC.child("activeDeadlineSeconds"), deadline, text))
    return errors


def _volumes(volumes: tuple[dict[str, Any], ...], path: Path) -> tuple[set[str], list[FieldError]]:
    """Names only; what is in a volume matters to the kubelet. Also returns the names that are fine."""
    fine: set[str] = set()
    errors: list[FieldError] = []
    for position, volume in enumerate(volumes):
        here = path.index(position).child("name")
        name = volume.get("name", "")
        if not isinstance(name, str):
            errors.append(invalid(here, name, "must be a string"))
            continue
        faults = by_rule_or_required(names.dns_label, name, here)
        if name in fine:
            faults.append(duplicate(here, name))
        if not faults:
            fine.add(name)
        errors += faults
    return fine, errors


def _claims(pod: Pod) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, claim in enumerate(pod.spec.resource_claims):
        if _MIRROR in pod.metadata.annotations:
            errors.append(forbidden(WHOLE_OBJECT, "static pods do not support resource claims"))
            continue
        errors += _claim(claim, seen, _SPEC.child("resourceClaims").index(position))
    return errors


def _claim(claim: PodResourceClaim, seen: set[str], path: Path) -> list[FieldError]:
    if claim.name in seen:
        errors = [duplicate(path.child("name"), claim.name)]
    else:
        errors = by_rule_or_required(names.dns_label, claim.name, path.child("name"))
        seen.update({claim.name} - {""})
    existing, template = claim.resource_claim_name, claim.resource_claim_template_name
    shown = msgspec.to_builtins(claim)
    if existing is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.append(invalid(path, shown, text))
    if existing is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.append(invalid(path, shown, text))
    if existing is not None:
        errors += by_rule(names.dns_subdomain, existing, path.child("resourceClaimName"))
    if template is not None:
        errors += by_rule(names.dns_subdomain, template, path.child("resourceClaimTemplateName"))
    return errors


def _all_containers(spec: PodSpec, volumes: set[str]) -> list[FieldError]:
    claims = {claim.name for claim in spec.resource_claims if claim.name}
    path = _SPEC.child("containers")
    errors = [] if spec.containers else [required(path)]
    errors += check_containers(spec.containers, volumes, claims, path)
    taken = {container.name for container in spec.containers}
    errors += check_containers(spec.init_containers, volumes, claims, _SPEC.child("initContainers"), taken)
    return errors


def _affinity(affinity: Affinity, path: Path) -> list[FieldError]:
    if affinity.node_affinity is None:
        return []
    errors: list[FieldError] = []
    if affinity.node_affinity.required is not None:
        here = path.child("requiredDuringSchedulingIgnoredDuringExecution")
        errors += check_node_selector(affinity.node_affinity.required, here)
    for position, term in enumerate(affinity.node_affinity.preferred):
        here = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(position)
        if not 1 <= term.weight <= 100:
            errors.append(invalid(here.child("weight"), term.weight, "must be in the range 1-100"))
        errors += check_node_selector_term(term.preference, here.child("preference"), any_values=True)
    return errors


def check_tolerations(tolerations: tuple[Toleration, ...], path: Path) -> list[FieldError]:
    """A pod's tolerations. The API server reports a bad value at `operator`."""
    errors: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        errors += _toleration(toleration, path.index(position))
    return errors


def _toleration(toleration: Toleration, path: Path) -> list[FieldError]:
    key, operator, value, effect = toleration.key, toleration.operator, toleration.value, toleration.effect
    errors: list[FieldError] = []
    if key:
        errors += by_rule(names.label_key, key, path.child("key"))
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(path.child("operator"), operator, text))
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(path.child("effect"), effect, text))
    if operator in ("", "Equal"):
        if faults := names.label_value(value):
            errors.append(invalid(path.child("operator"), value, ";".join(faults)))
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(path.child("operator"), value, text))
    else:
        errors.append(not_supported(path.child("operator"), operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(path.child("effect"), effect, _EFFECTS))
    return errors
