"""Extended resources that devices serve: where a node's device plugin has none of them, a claim is made for the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from dray.api.core.container import Container
from dray.api.core.node import Node
from dray.api.core.pod import ContainerExtendedResourceRequest, Pod
from dray.api.limits import EXTENDED_RESOURCE_CLAIM_ANNOTATION, IMPLICIT_EXTENDED_RESOURCE_PREFIX
from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.names import is_extended_resource_name
from dray.api.resource.claim import (
    EXACT_COUNT,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dray.scheduler.claims.outcome import SUCCESS, Status, unresolvable
from dray.scheduler.claims.pod_claims import PodClaims
from dray.semantics.requests import pod_requests

IN_MEMORY: Final = "<extended-resources>"
"""The special claim's name until it is stored; no name that a stored claim can have."""

_Mapping = ContainerExtendedResourceRequest


@dataclass(frozen=True, slots=True)
class ForNode:
    """What one node makes of the special claim; `claim` is None where there is nothing to allocate for it."""

    status: Status = SUCCESS
    claim: ResourceClaim | None = None
    mappings: tuple[_Mapping, ...] = ()


NOTHING: Final = ForNode()


def is_extended(name: str) -> bool:
    """Whether a class may serve a resource of this name."""
    return name.startswith(IMPLICIT_EXTENDED_RESOURCE_PREFIX) or is_extended_resource_name(name)


def wanted_by(pod: Pod, class_of: Mapping[str, str]) -> dict[str, int]:
    """The pod's extended resources; empty unless a class serves one of them."""
    amounts = {name: amount.value() for name, amount in pod_requests(pod).items() if is_extended(name)}
    found = {name: amount for name, amount in sorted(amounts.items()) if amount}
    return found if any(name in class_of for name in found) else {}


def owner_of(claim: ResourceClaim) -> str:
    """The uid of the pod for whose extended resources the claim was made; "" for other claims."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return ""
    return next((one.uid for one in claim.metadata.owner_references if one.controller), "")


def special_claim(pod: Pod) -> ResourceClaim:
    """In memory, without requests: those depend on the node. Its uid, made of the pod's, is no other claim's."""
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            namespace=pod.metadata.namespace,
            uid=f"{IN_MEMORY}{pod.metadata.uid}",
            annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
            owner_references=(owner,),
        )
    )


def served_on(plan: PodClaims, node: Node, class_of: Mapping[str, str]) -> tuple[str, ...] | None:
    """Which of the pod's resources devices must serve here: those of which the node itself has none. None where nobody
    serves one of them. Most nodes are alike, so the answer for the same resources is the same `for_served`.
    """
    served = []
    for name in plan.wanted:
        has = node.status.allocatable.get(name)
        if name in class_of and (has is None or has.value() == 0):
            served.append(name)
        elif has is None:
            return None
    return tuple(served)


def for_served(
    plan: PodClaims, claim: ResourceClaim, served: tuple[str, ...] | None, class_of: Mapping[str, str]
) -> ForNode:
    """What nodes make of the special claim of the plan where devices serve these resources."""
    if claim.metadata.name != IN_MEMORY:
        return ForNode(unresolvable("cannot schedule extended resource claim"))
    if served is None:
        return ForNode(unresolvable("cannot fit resource"))
    if not served:
        return NOTHING
    requests, mappings = requests_and_mappings(plan.pod, served, class_of)
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
    return ForNode(SUCCESS, msgspec.structs.replace(claim, spec=spec), mappings)


def requests_and_mappings(
    pod: Pod, resources: Sequence[str], class_of: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[_Mapping, ...]]:
    """One request for each container that keeps its devices, and one more for what init containers need beyond those.

    An init container is over before later containers run, so it uses their devices.
    """
    requests: list[DeviceRequest] = []
    mappings: list[_Mapping] = []
    for name in sorted(resources):
        if name in class_of:
            some, more = _of_resource(pod, name, class_of[name])
            requests += some
            mappings += more
    return tuple(sorted(requests, key=lambda one: one.name)), tuple(mappings)


def _of_resource(pod: Pod, resource: str, device_class: str) -> tuple[list[DeviceRequest], list[_Mapping]]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    first = len(pod.spec.init_containers)
    passing = [one.restart_policy != "Always" and place < first for place, one in enumerate(containers)]
    lasting: dict[int, DeviceRequest] = {}
    mappings: list[_Mapping] = []
    for place, container in enumerate(containers):
        if not passing[place] and (count := _asked(container, resource)):
            lasting[place] = _request(place, container, resource, device_class, count)
            mappings.append(_mapping(container, resource, lasting[place].name))
    extra: list[DeviceRequest] = []
    passing_mappings: list[tuple[Container, str, bool]] = []
    for place, container in enumerate(containers):
        if not passing[place] or not (count := _asked(container, resource)):
            continue
        for other, request in lasting.items():
            if other > place and count > 0 and request.exactly is not None:
                passing_mappings.append((container, request.name, False))
                count -= request.exactly.count
        if count > 0:
            extra.append(_request(place, container, resource, device_class, count))
            passing_mappings.append((container, "", True))
    # They run one after the other, so the largest is enough for all.
    largest = max(extra, key=_count, default=None)
    for container, name, is_extra in passing_mappings:
        shown = largest.name if is_extra and largest is not None else name
        mappings.append(_mapping(container, resource, shown))
    return [*([largest] if largest is not None else ()), *lasting.values()], mappings


def _asked(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource)
    return (amount.as_int64() or 0) if amount is not None else 0


def _request(place: int, container: Container, resource: str, device_class: str, count: int) -> DeviceRequest:
    """Named by the container's place among all, and the resource's among those that the container asks for."""
    number = sorted(container.resources.requests).index(resource)
    return DeviceRequest(
        name=f"container-{place}-request-{number}",
        exactly=ExactDeviceRequest(device_class_name=device_class, allocation_mode=EXACT_COUNT, count=count),
    )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _mapping(container: Container, resource: str, request: str) -> _Mapping:
    return _Mapping(container_name=container.name, resource_name=resource, request_name=request)
