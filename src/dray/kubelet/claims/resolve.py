"""From a pod to its claims: which objects, whether it may use them, and what each container takes of them. Pure."""

from __future__ import annotations

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.api.core.pod import PodResourceClaim
from dray.api.names import is_extended_resource_name
from dray.api.quoting import quote
from dray.api.resource import ResourceClaim
from dray.errors import DeniedError, InvalidError, UnavailableError
from dray.semantics.claims import (
    ClaimName,
    NoClaim,
    claim_for_entry,
    group_name,
    is_for_pod,
    is_reserved_for_pod,
)

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def resolve(pod: Pod, claim: PodResourceClaim) -> ClaimName | None:
    """The claim's object, None where none was needed. UnavailableError: not made yet, ask again."""
    found = claim_for_entry(pod, claim)
    if isinstance(found, ClaimName):
        return found
    shown = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if found is NoClaim.NO_SOURCE:
        raise InvalidError(
            f'pod "{shown}", spec.resourceClaim {quote(claim.name)}: none of the supported fields are set'
        )
    if found is NoClaim.NOT_MADE:
        raise UnavailableError(f'pod "{shown}": ResourceClaim not created yet')
    return None


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
    if name.from_template and not is_for_pod(claim, pod, pod_groups=pod_groups):
        raise _not_owner(pod, claim, pod_groups)
    if not is_reserved_for_pod(claim, pod, pod_groups=pod_groups):
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


def _not_owner(pod: Pod, claim: ResourceClaim, pod_groups: bool) -> DeniedError:
    meta = claim.metadata
    shown, ours = f"{meta.namespace}/{meta.name}", f"{pod.metadata.namespace}/{pod.metadata.name}"
    if meta.namespace != pod.metadata.namespace:
        return DeniedError(f"ResourceClaim {shown} is not in the same namespace as Pod {ours}")
    group = group_name(pod) if pod_groups else None
    if group is None:
        return DeniedError(f"ResourceClaim {shown} was not created for Pod {ours} (Pod is not owner)")
    return DeniedError(
        f"ResourceClaim {shown} was not created for Pod {ours} (neither Pod nor PodGroup {group} is the owner)"
    )
