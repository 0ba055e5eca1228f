"""From a pod to its claims: which objects, whether it may use them, and what each container takes of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.api.core.pod import PodResourceClaim
from dray.api.meta import OwnerReference
from dray.api.names import is_extended_resource_name
from dray.api.quoting import quote
from dray.api.resource import ResourceClaim
from dray.errors import DeniedError, InvalidError, UnavailableError

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
_SCHEDULING = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class ClaimName:
    """The object behind a pod's claim. One from a template must belong to the pod."""

    name: str
    from_template: bool


def resolve(pod: Pod, claim: PodResourceClaim) -> ClaimName | None:
    """The claim's object, None where none was needed. UnavailableError: not made yet, ask again."""
    if claim.resource_claim_name is not None:
        return ClaimName(claim.resource_claim_name, from_template=False)
    shown = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if claim.resource_claim_template_name is None:
        raise InvalidError(
            f'pod "{shown}", spec.resourceClaim {quote(claim.name)}: none of the supported fields are set'
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == claim.name:
            name = status.resource_claim_name
            return None if name is None else ClaimName(name, from_template=True)
    raise UnavailableError(f'pod "{shown}": ResourceClaim not created yet')


def claims_of(pod: Pod) -> tuple[PodResourceClaim, ...]:
    """The pod's own claims, and the one the scheduler made for its extended resources, which has no name in the pod."""
    extended = pod.status.extended_resource_claim_status
    if extended is None:
        return pod.spec.resource_claims
    special = PodResourceClaim(resource_claim_name=extended.resource_claim_name)
    return (*pod.spec.resource_claims, special)


def check_may_use(pod: Pod, claim: ResourceClaim, name: ClaimName, *, pod_groups: bool = False) -> None:
    """Raise unless the claim was made for this pod (where it comes from a template) and is reserved for it.

    `pod_groups`: the pod's group may be the owner and the one it is reserved for (DRAWorkloadResourceClaims).
    """
    if name.from_template:
        _check_owner(pod, claim, pod_groups)
    if not _is_reserved(pod, claim, pod_groups):
        raise DeniedError(
            f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
            f"ResourceClaim {name.name} ({claim.metadata.uid})"
        )


def requests_of(pod: Pod, container: Container) -> dict[str, list[str]]:
    """What a container takes: claim name to requests, in the pod's order; "" is the whole claim."""
    wanted: dict[str, list[str]] = {}
    for pod_claim in pod.spec.resource_claims:
        requests = [claim.request for claim in container.resources.claims if claim.name == pod_claim.name]
        if requests and (name := resolve(pod, pod_claim)) is not None:
            wanted.setdefault(name.name, []).extend(requests)
    extended = pod.status.extended_resource_claim_status
    for mapping in extended.request_mappings if extended is not None else ():
        asked = container.resources.requests.get(mapping.resource_name)
        if (
            extended is not None
            and mapping.container_name == container.name
            and asked is not None
            and asked.nano != 0
            and is_claim_backed(mapping.resource_name)
        ):
            wanted.setdefault(extended.resource_claim_name, []).append(mapping.request_name)
    return wanted


def is_claim_backed(resource: str) -> bool:
    """Whether an extended resource of this name can come from a claim."""
    return resource.startswith(CLASS_PREFIX) or is_extended_resource_name(resource)


def base_request(request: str) -> str:
    """The request without its subrequest: devices are told under the former."""
    return request.partition("/")[0]


def _check_owner(pod: Pod, claim: ResourceClaim, pod_groups: bool) -> None:
    meta = claim.metadata
    shown, ours = f"{meta.namespace}/{meta.name}", f"{pod.metadata.namespace}/{pod.metadata.name}"
    if meta.namespace != pod.metadata.namespace:
        raise DeniedError(f"ResourceClaim {shown} is not in the same namespace as Pod {ours}")
    owner = next((owner for owner in meta.owner_references if owner.controller), None)
    if owner is not None and owner.uid == pod.metadata.uid:
        return
    group = _group_of(pod)
    if not pod_groups or group is None:
        raise DeniedError(f"ResourceClaim {shown} was not created for Pod {ours} (Pod is not owner)")
    if not _is_group(owner, group):
        raise DeniedError(
            f"ResourceClaim {shown} was not created for Pod {ours} (neither Pod nor PodGroup {group} is the owner)"
        )


def _is_group(owner: OwnerReference | None, group: str) -> bool:
    if owner is None or owner.kind != "PodGroup" or owner.name != group:
        return False
    return owner.api_version.startswith(f"{_SCHEDULING}/")


def _is_reserved(pod: Pod, claim: ResourceClaim, pod_groups: bool) -> bool:
    group = _group_of(pod) if pod_groups else None
    return any(
        reserved.uid == pod.metadata.uid
        or (
            group is not None
            and reserved.api_group == _SCHEDULING
            and reserved.resource == "podgroups"
            and reserved.name == group
        )
        for reserved in claim.status.reserved_for
    )


def _group_of(pod: Pod) -> str | None:
    group = (pod.spec.scheduling_group or {}).get("podGroupName")
    return group if isinstance(group, str) else None
