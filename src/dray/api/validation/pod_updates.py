"""Rules for changing a pod, and for writing its status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from dray.api import names
from dray.api.core.container import Container, ContainerStatus
from dray.api.core.pod import Pod, PodExtendedResourceClaimStatus, PodSpec
from dray.api.field_errors import FieldError, Path
from dray.api.taints import Toleration
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
)

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod_update(new: Pod, old: Pod) -> list[FieldError]:
    """What of a pod may change through its main door: images, the deadline, more tolerations, fewer gates."""
    for field, mine, before in (
        ("containers", new.spec.containers, old.spec.containers),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        if len(mine) != len(before):
            return [forbidden(_SPEC.child(field), "pod updates may not add or remove containers")]
    errors = _deadline(new.spec, old.spec)
    errors += _tolerations(new.spec.tolerations, old.spec.tolerations)
    errors += _gates(new.spec, old.spec)
    if old.spec.scheduling_gates:
        errors += _node_selector(new.spec, old.spec)
    if _with_changeable(new.spec, old.spec) != old.spec:
        errors.append(forbidden(_SPEC, f"pod updates may not change fields other than {_CHANGEABLE}"))
    return errors


def _with_changeable(new: PodSpec, old: PodSpec) -> PodSpec:
    """The new spec with everything put back that may change; it then equals the old one, or too much changed.

    While a pod is gated its node selector may grow, and its node affinity may change; how far, is checked apart.
    """
    back = replace(
        new,
        containers=tuple(map(_with_image, new.containers, old.containers)),
        init_containers=tuple(map(_with_image, new.init_containers, old.init_containers)),
        active_deadline_seconds=old.active_deadline_seconds,
        tolerations=old.tolerations,
        scheduling_gates=old.scheduling_gates,
    )
    grace = old.termination_grace_period_seconds
    if grace is not None and grace < 0 and new.termination_grace_period_seconds == 1:
        back = replace(back, termination_grace_period_seconds=grace)
    if not old.scheduling_gates:
        return back
    affinity = back.affinity
    if affinity is not None and old.affinity is not None:
        affinity = replace(affinity, node_affinity=old.affinity.node_affinity)
    elif affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        affinity = old.affinity
    return replace(back, node_selector=old.node_selector, affinity=affinity)


def _with_image(new: Container, old: Container) -> Container:
    return replace(new, image=old.image)


def _deadline(new: PodSpec, old: PodSpec) -> list[FieldError]:
    path = _SPEC.child("activeDeadlineSeconds")
    now, before = new.active_deadline_seconds, old.active_deadline_seconds
    if before is None:
        return []
    if now is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    return [invalid(path, now, "must be less than or equal to previous value")] if now > before else []


def _tolerations(new: tuple[Toleration, ...], old: tuple[Toleration, ...]) -> list[FieldError]:
    kept = {replace(toleration, toleration_seconds=None) for toleration in new}
    if all(replace(toleration, toleration_seconds=None) in kept for toleration in old):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden(_SPEC.child("tolerations"), text)]


def _gates(new: PodSpec, old: PodSpec) -> list[FieldError]:
    """Each new gate once, at its last place."""
    places = {gate.name: position for position, gate in enumerate(new.scheduling_gates)}
    for gate in old.scheduling_gates:
        places.pop(gate.name, None)
    path = _SPEC.child("schedulingGates")
    return [
        forbidden(
            path.index(position).child("name"),
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, position in places.items()
    ]


def _node_selector(new: PodSpec, old: PodSpec) -> list[FieldError]:
    if old.node_selector.items() <= new.node_selector.items():
        return []
    text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid(_SPEC.child("nodeSelector"), new.node_selector, text)]


def check_pod_status(new: Pod, old: Pod) -> list[FieldError]:
    """A new status of a pod; the caller has put the old spec under it."""
    status = new.status
    errors: list[FieldError] = []
    nominated = status.nominated_node_name
    if nominated and nominated != old.status.nominated_node_name:
        path = _STATUS.child("nominatedNodeName")
        errors += by_rule(names.dns_subdomain, nominated, path)
        if old.spec.node_name:
            errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    if status.qos_class != old.status.qos_class:
        errors.append(immutable(_STATUS.child("qosClass"), status.qos_class))
    errors += _claim_statuses(new)
    if status.extended_resource_claim_status is not None:
        path = _STATUS.child("extendedResourceClaimStatus")
        errors += _extended(status.extended_resource_claim_status, new.spec, path)
    errors += _node_resources(new)
    for field, statuses, containers in (
        ("containerStatuses", status.container_statuses, new.spec.containers),
        ("initContainerStatuses", status.init_container_statuses, new.spec.init_containers),
    ):
        errors += _device_health(statuses, containers, _STATUS.child(field))
    return errors


def _claim_statuses(pod: Pod) -> list[FieldError]:
    known = {claim.name for claim in pod.spec.resource_claims}
    seen: set[str] = set()
    errors: list[FieldError] = []
    for position, status in enumerate(pod.status.resource_claim_statuses):
        path = _STATUS.child("resourceClaimStatuses").index(position)
        if status.name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(path.child("name"), status.name, text))
        if status.name in seen:
            errors.append(duplicate(path.child("name"), status.name))
        seen.add(status.name)
        if status.resource_claim_name is not None:
            errors += by_rule(
                names.dns_subdomain, status.resource_claim_name, path.child("resourceClaimName")
            )
    return errors


def _node_resources(pod: Pod) -> list[FieldError]:
    """What claims take from the node: each must be one of the pod's, used by a container, and of Kubernetes' own resources."""
    named = {one.resource_claim_name for one in pod.spec.resource_claims}
    named |= {one.resource_claim_name for one in pod.status.resource_claim_statuses}
    errors: list[FieldError] = []
    for position, status in enumerate(pod.status.node_allocatable_resource_claim_statuses):
        path = _STATUS.child("nodeAllocatableResourceClaimStatuses").index(position)
        name = status.resource_claim_name
        if not name:
            errors.append(required(path.child("resourceClaimName"), "must not be empty"))
        if name not in named:
            text = "no mapping found in pod reference"
            errors.append(invalid(path.child("resourceClaimName"), name, text))
        for field, value in (("containers", status.containers), ("resources", status.resources)):
            if not value:
                errors.append(required(path.child(field), "must not be empty"))
        for resource, amount in sorted(status.resources.items()):
            here = path.child("resources").key(resource)
            if not names.is_native_resource(resource):
                errors.append(invalid(here, resource, "must be a node allocatable resource name"))
            if amount.sign() < 0:
                errors.append(invalid(here, str(amount), "must be non-negative"))
    return errors


def _extended(status: PodExtendedResourceClaimStatus, spec: PodSpec, path: Path) -> list[FieldError]:
    containers = {container.name: container for container in (*spec.init_containers, *spec.containers)}
    here = path.child("requestMappings")
    errors: list[FieldError] = []
    if not status.request_mappings:
        errors.append(required(here, "at least one request mapping is required"))
    seen = set()
    for position, mapping in enumerate(status.request_mappings):
        at = here.index(position)
        container = containers.get(mapping.container_name)
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(at.child("containerName"), mapping.container_name, text))
        elif mapping.resource_name not in container.resources.requests:
            text = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"
            errors.append(invalid(at.child("resourceName"), mapping.resource_name, text))
        errors += by_rule(names.dns_label, mapping.request_name, path.child("requestName"))
        if mapping in seen:
            errors.append(duplicate(at.child("containerName"), mapping.container_name))
            errors.append(duplicate(at.child("resourceName"), mapping.resource_name))
            errors.append(duplicate(at.child("requestName"), mapping.request_name))
        seen.add(mapping)
    claim = path.child("resourceClaimName")
    return errors + by_rule_or_required(names.dns_subdomain, status.resource_claim_name, claim)


def _device_health(
    statuses: Iterable[ContainerStatus], containers: tuple[Container, ...], path: Path
) -> list[FieldError]:
    """Reported device health must be of something the container asked for."""
    asked = {
        container.name: {*container.resources.requests}
        | {
            f"claim:{claim.name}/{claim.request}" if claim.request else f"claim:{claim.name}"
            for claim in container.resources.claims
        }
        for container in containers
    }
    errors = []
    for position, status in enumerate(statuses):
        for index, resource in enumerate(status.allocated_resources_status):
            if status.name in asked and resource.name not in asked[status.name]:
                here = path.index(position).child("allocatedResourcesStatus").index(index).child("name")
                text = "must match one of the container's resource requests"
                errors.append(invalid(here, resource.name, text))
    return errors
