"""Who wants devices: pods with claims, and claims that no pod of the files uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from dray.allocation.cluster_dump import Cluster, by_name
from dray.allocation.requests import claim_name
from dray.api.core import Node, Pod
from dray.api.core.pod import PodResourceClaim
from dray.api.meta import ObjectMeta
from dray.api.resource.claim import ResourceClaim, ResourceClaimTemplate
from dray.api.selectors import compile_node_selector
from dray.errors import InvalidError

POD: Final = "pod"
CLAIM: Final = "claim"
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is placed together on one node: `pending` claims need devices, `allocated` ones have theirs already.

    `problem` says why nothing can be decided, for example a claim that is not in the files.
    """

    kind: str
    name: str
    pending: tuple[ResourceClaim, ...] = ()
    allocated: tuple[ResourceClaim, ...] = ()
    node_name: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def barred_from(self, node: Node) -> str:
        """Why this node is out of the question before any device is looked at; "" where it is not."""
        if self.node_name and node.metadata.name != self.node_name:
            return f"the pod is on node {self.node_name}"
        for claim in self.allocated:
            selector = claim.status.allocation.node_selector if claim.status.allocation else None
            if selector is None:
                continue
            try:
                is_for = compile_node_selector(selector).matches(node.metadata.labels, node.metadata.name)
            except InvalidError as error:
                return f"claim {claim_name(claim)}: its allocation's node selector cannot be read: {error}"
            if not is_for:
                return f"claim {claim_name(claim)} has its devices on other nodes"
        return ""


def workloads_of(cluster: Cluster) -> tuple[Workload, ...]:
    """Pods that run or wait and have claims, then the claims without an allocation that none of these pods uses."""
    pods = [_of_pod(pod, cluster) for pod in cluster.pods if _counts(pod)]
    used = {claim_name(claim) for one in pods for claim in one.pending}
    alone = [
        Workload(CLAIM, claim_name(claim), (claim,))
        for claim in cluster.claims
        if claim.status.allocation is None and claim_name(claim) not in used
    ]
    return (*pods, *alone)


def all_pending(cluster: Cluster) -> Workload:
    """All claims without an allocation, as if one pod had them: the files' own, then those templates make for pods."""
    found = {claim_name(one): one for one in cluster.claims if one.status.allocation is None}
    for workload in workloads_of(cluster):
        if workload.problem:
            raise InvalidError(f"{workload}: {workload.problem}")
        found |= {claim_name(one): one for one in workload.pending if claim_name(one) not in found}
    return Workload(CLAIM, ", ".join(found), tuple(found.values()))


def from_templates(cluster: Cluster) -> Workload:
    """One claim of each template, as if one pod had them."""
    claims = tuple(_made(template, template.metadata.name) for template in cluster.templates)
    return Workload(CLAIM, ", ".join(map(claim_name, claims)), claims)


def find_workload(workloads: tuple[Workload, ...], word: str, namespace: str) -> Workload:
    """`CLAIM` or `pod/NAME` in a namespace. A claim that a pod uses stands for that pod."""
    kind, slash, name = word.rpartition("/")
    full = f"{namespace}/{name}"
    if kind not in ("", "pod", "pods", "claim", "resourceclaim") or not name:
        raise InvalidError(f"{word!r} is neither CLAIM nor pod/NAME", field="CLAIM")
    for one in workloads:
        if slash and kind.startswith("pod"):
            if one.kind == POD and one.name == full:
                return one
        elif full in (claim_name(claim) for claim in (*one.pending, *one.allocated)):
            return one
    what = f"pod {full} with claims" if kind.startswith("pod") else f"claim {full} without an allocation"
    more = "; resources of device plugins are not explained yet" if kind.startswith("pod") else ""
    raise InvalidError(f"no {what} in the files{more}", field=word)


def _counts(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) and pod.status.phase not in _ENDED


def _of_pod(pod: Pod, cluster: Cluster) -> Workload:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    start = Workload(POD, name, node_name=pod.spec.node_name)
    try:
        claims = tuple(_claims(pod, cluster))
    except InvalidError as error:
        return replace(start, problem=str(error))
    return replace(
        start,
        pending=tuple(one for one in claims if one.status.allocation is None),
        allocated=tuple(one for one in claims if one.status.allocation is not None),
    )


def _claims(pod: Pod, cluster: Cluster) -> Iterator[ResourceClaim]:
    claims, templates = by_name(cluster.claims), by_name(cluster.templates)
    namespace = pod.metadata.namespace
    statuses = {one.name: one for one in pod.status.resource_claim_statuses}
    for one in pod.spec.resource_claims:
        status = statuses.get(one.name)
        if status is not None and status.resource_claim_name is None:
            continue
        name = status.resource_claim_name if status is not None else one.resource_claim_name
        if name is not None and (namespace, name) in claims:
            yield claims[namespace, name]
        elif one.resource_claim_template_name is not None:
            yield _from_template(pod, one, templates)
        else:
            raise InvalidError(f"ResourceClaim {namespace}/{name} is not in the files")


def _from_template(
    pod: Pod, one: PodResourceClaim, templates: dict[tuple[str, str], ResourceClaimTemplate]
) -> ResourceClaim:
    namespace, name = pod.metadata.namespace, one.resource_claim_template_name or ""
    if (namespace, name) not in templates:
        raise InvalidError(f"ResourceClaimTemplate {namespace}/{name} is not in the files")
    return _made(templates[namespace, name], f"{pod.metadata.name}-{one.name}")


def _made(template: ResourceClaimTemplate, name: str) -> ResourceClaim:
    meta = ObjectMeta(name=name, namespace=template.metadata.namespace)
    return ResourceClaim(metadata=meta, spec=template.spec.spec)
