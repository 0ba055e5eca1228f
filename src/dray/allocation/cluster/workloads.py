"""Who wants devices: pods with claims or resources of device plugins, and claims that none of these pods uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dray.allocation.cluster.cluster_dump import Cluster, by_name, is_device_resource
from dray.allocation.requests import claim_name
from dray.api.core import Event, Node, Pod
from dray.api.meta import ObjectMeta
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim, ResourceClaimTemplate
from dray.api.selectors import compile_node_selector
from dray.api.taints import Taint, untolerated
from dray.errors import InvalidError, NotFoundError
from dray.semantics.claims import ClaimName, NoClaim, claim_for_entry, is_for_pod
from dray.semantics.requests import pod_requests

POD: Final = "pod"
CLAIM: Final = "claim"
_ENDED: Final = ("Succeeded", "Failed")
_NOT_ADMITTED: Final = ("UnexpectedAdmissionError", "TopologyAffinityError", "OutOf")
"""How the reasons start that a kubelet gives when it has no devices or resources for a pod that was bound to it."""
_OF_SCHEDULERS: Final = "FailedScheduling"
"""The reason of warnings that are over once a pod is bound."""
_ENDS_AGAIN: Final = "CrashLoopBackOff"
"""What a container waits with that was started several times and ended each time."""
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is placed together on one node: `pending` claims need devices, `allocated` ones have theirs already.

    `problem` says why nothing can be decided, for example a claim that is not there. `resources` are those that device
    plugins serve; `barred` says by node what is against it from outside, and `not_admitted` what the kubelet said.
    `not_started` is what it said last of a pod that has its devices and does not start, or whose program ends again and again.
    """

    kind: str
    name: str
    pending: tuple[ResourceClaim, ...] = ()
    allocated: tuple[ResourceClaim, ...] = ()
    node_name: str = ""
    problem: str = ""
    pod: Pod | None = None
    resources: Mapping[str, Quantity] = field(default_factory=dict)
    barred: Mapping[str, str] = field(default_factory=dict)
    not_admitted: str = ""
    not_started: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def is_leaving(self) -> bool:
        """Whether it is a pod that is being deleted."""
        return self.pod is not None and self.pod.metadata.deletion_timestamp is not None

    @property
    def waits(self) -> bool:
        """Whether there is something left to decide."""
        if self.not_admitted or self.is_leaving:
            return False
        return bool(self.pending or self.problem or (self.resources and not self.node_name))

    def barred_from(self, node: Node) -> str:
        """Why this node is out of the question before any device is looked at; "" where it is not."""
        name = node.metadata.name
        if self.node_name and name != self.node_name:
            return f"the pod is on node {self.node_name}"
        for claim in self.allocated:
            selector = claim.status.allocation.node_selector if claim.status.allocation else None
            if selector is None:
                continue
            try:
                is_for = compile_node_selector(selector).matches(node.metadata.labels, name)
            except InvalidError as error:
                return f"claim {claim_name(claim)}: its allocation's node selector cannot be read: {error}"
            if not is_for:
                return f"claim {claim_name(claim)} has its devices on other nodes"
        if self.pod is None or self.node_name:
            return self.barred.get(name, "")
        return kept_off(self.pod, node) or self.barred.get(name, "")


def kept_off(pod: Pod, node: Node) -> str:
    """What a pod that waits and a node say about each other, as far as one of them alone can tell; "" for nothing."""
    spec, labels, name = pod.spec, node.metadata.labels, node.metadata.name
    if spec.scheduling_gates:
        return f"the pod has scheduling gates: {', '.join(gate.name for gate in spec.scheduling_gates)}"
    if node.spec.unschedulable and untolerated((_CORDONED,), spec.tolerations):
        return "the node is cordoned"
    if taints := untolerated(node.spec.taints, spec.tolerations):
        taint = taints[0]
        value = f"={taint.value}" if taint.value else ""
        return f"the pod does not tolerate the node's taint {taint.key}{value}:{taint.effect}"
    for key, value in sorted(spec.node_selector.items()):
        if labels.get(key) != value:
            return f"the pod's nodeSelector wants {key}={value}"
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return ""
    try:
        is_for = compile_node_selector(affinity.required, lenient=True).matches(labels, name)
    except InvalidError as error:
        return f"the pod's node affinity cannot be read: {error}"
    return "" if is_for else "the pod's node affinity does not match"


def has_ended(pod: Pod) -> bool:
    """Whether a pod gave back everything it had."""
    return pod.status.phase in _ENDED


def full_name(pod: Pod) -> str:
    """NAMESPACE/NAME."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def workloads_of(cluster: Cluster) -> tuple[Workload, ...]:
    """Pods that want devices and run, wait or were not admitted, then the claims without an allocation that none of these pods uses."""
    known = _Known.of(cluster)
    pods = [one for pod in cluster.pods if (one := _of_pod(pod, known)) is not None]
    used = {claim_name(claim) for one in pods for claim in one.pending}
    alone = [
        Workload(CLAIM, claim_name(claim), (claim,))
        for claim in cluster.claims
        if _is_pending(claim) and claim_name(claim) not in used
    ]
    return (*pods, *alone)


def _is_pending(claim: ResourceClaim) -> bool:
    return claim.status.allocation is None and claim.metadata.deletion_timestamp is None


def asked_for(cluster: Cluster, files: Cluster | None = None) -> tuple[Workload, ...]:
    """All workloads, or those whose pod or claim is in the files that lie over the cluster."""
    if files is None:
        return workloads_of(cluster)
    pods, claims = set(map(full_name, files.pods)), set(map(claim_name, files.claims))
    return tuple(
        one
        for one in workloads_of(cluster)
        if (one.kind == POD and one.name in pods) or not claims.isdisjoint(map(claim_name, one.pending))
    )


def all_pending(cluster: Cluster, files: Cluster | None = None) -> Workload:
    """All claims without an allocation, as if one pod had them: the objects' own, then those templates make for pods.

    Where files lie over the cluster, those of the files.
    """
    own = (files or cluster).claims
    found = {claim_name(one): one for one in own if _is_pending(one)}
    return _together(asked_for(cluster, files), found)


def together(workloads: Iterable[Workload]) -> Workload:
    """The claims of several workloads, as if one pod had them. One alone keeps what ties it to nodes."""
    workloads = tuple(workloads)
    if len(workloads) == 1 and not workloads[0].problem:
        return workloads[0]
    return _together(workloads, {})


def _together(workloads: Iterable[Workload], found: dict[str, ResourceClaim]) -> Workload:
    for workload in workloads:
        if workload.problem:
            raise InvalidError(f"{workload}: {workload.problem}")
        found |= {claim_name(one): one for one in workload.pending if claim_name(one) not in found}
    return Workload(CLAIM, ", ".join(found), tuple(found.values()))


def from_templates(cluster: Cluster) -> Workload:
    """One claim of each template, as if one pod had them."""
    claims = tuple(_made(template, template.metadata.name) for template in cluster.templates)
    return Workload(CLAIM, ", ".join(map(claim_name, claims)), claims)


def to_copy(cluster: Cluster, files: Cluster | None = None) -> Workload:
    """What is tried again and again where nobody names it: all that waits, or else one claim of each template."""
    waiting = all_pending(cluster, files)
    return waiting if waiting.pending else from_templates(files or cluster)


def find_workload(cluster: Cluster, word: str, namespace: str) -> Workload:
    """`CLAIM`, `pod/NAME` or `template/NAME` in a namespace. A claim that a pod waits for stands for that pod."""
    kind, slash, name = word.rpartition("/")
    full = f"{namespace}/{name}"
    if not name or (slash and kind not in ("pod", "pods", "claim", "resourceclaim", "template")):
        raise InvalidError(f"{word!r} is none of CLAIM, pod/NAME and template/NAME", field="CLAIM")
    if kind in ("pod", "pods"):
        return _find_pod(cluster, full)
    if kind == "template":
        found = by_name(cluster.templates).get((namespace, name))
        if found is None:
            raise _missing(cluster, "ResourceClaimTemplate", full)
        return Workload(CLAIM, full, (_made(found, name),))
    for one in workloads_of(cluster):
        if full in (claim_name(claim) for claim in (*one.pending, *one.allocated)):
            return one
    claim = by_name(cluster.claims).get((namespace, name))
    if claim is None:
        raise _missing(cluster, "ResourceClaim", full)
    if claim.status.allocation is None:
        return Workload(CLAIM, full, problem=f"ResourceClaim {full} is being deleted")
    return Workload(CLAIM, full, allocated=(claim,))


def _find_pod(cluster: Cluster, full: str) -> Workload:
    pod = next((one for one in cluster.pods if full_name(one) == full), None)
    if pod is None:
        raise _missing(cluster, "Pod", full)
    found = _of_pod(pod, _Known.of(cluster))
    if found is not None:
        return found
    if has_ended(pod):
        raise InvalidError(f"pod {full} has ended ({pod.status.phase}): it wants no devices", field=full)
    raise InvalidError(
        f"pod {full} asks for no devices: it has no resourceClaims and no resources of device plugins",
        field=full,
    )


def _missing(cluster: Cluster, kind: str, full: str) -> NotFoundError:
    return NotFoundError(f"no {kind} {full} in {cluster.source}", kind=kind, name=full)


@dataclass(frozen=True, slots=True)
class _Known:
    """Where pods' claims are found."""

    claims: dict[tuple[str, str], ResourceClaim]
    templates: dict[tuple[str, str], ResourceClaimTemplate]
    warnings: tuple[Event, ...]
    source: str

    @staticmethod
    def of(cluster: Cluster) -> _Known:
        return _Known(by_name(cluster.claims), by_name(cluster.templates), cluster.warnings, cluster.source)


def _of_pod(pod: Pod, known: _Known) -> Workload | None:
    """None for a pod that wants no devices, or that had its time."""
    resources = {
        name: amount
        for name, amount in sorted(pod_requests(pod).items())
        if amount and is_device_resource(name)
    }
    if not resources and not pod.spec.resource_claims:
        return None
    start = Workload(POD, full_name(pod), node_name=pod.spec.node_name, pod=pod, resources=resources)
    if has_ended(pod):
        reason = pod.status.reason
        said = f"{reason}: {' '.join(pod.status.message.split())}"
        return replace(start, not_admitted=said) if reason.startswith(_NOT_ADMITTED) else None
    try:
        claims = tuple(_claims(pod, known))
    except InvalidError as error:
        return replace(start, problem=str(error))
    pending = tuple(one for one in claims if one.status.allocation is None)
    return replace(
        start,
        pending=pending,
        allocated=tuple(one for one in claims if one.status.allocation is not None),
        not_started="" if pending else _not_started(pod, known.warnings),
    )


def _not_started(pod: Pod, warnings: Iterable[Event]) -> str:
    return _last_said(pod, warnings) if is_starting(pod) else keeps_ending(pod)


def is_starting(pod: Pod) -> bool:
    """Whether a node has the pod, and not all of its containers run yet."""
    return bool(pod.spec.node_name) and pod.status.phase in ("", "Pending")


def _last_said(pod: Pod, warnings: Iterable[Event]) -> str:
    """Why it does not start: the newest warning about it, else what its containers wait for."""
    about = [
        one
        for one in warnings
        if one.involved_object.uid == pod.metadata.uid and one.last_seen and one.reason != _OF_SCHEDULERS
    ]
    if about:
        newest = max(about, key=lambda one: (one.last_seen, one.metadata.name))
        return f"{newest.reason}: {' '.join(newest.message.split())}"
    waiting = [one.state.waiting for one in pod.status.container_statuses if one.state.waiting is not None]
    return next((f"{one.reason}: {one.message}" for one in waiting if one.message), "")


def keeps_ending(pod: Pod) -> str:
    """Which container's program ends each time it is started, and where to read why; "" for none."""
    for one in pod.status.container_statuses:
        if one.state.waiting is None or one.state.waiting.reason != _ENDS_AGAIN:
            continue
        ended, meta = one.last_state.terminated, pod.metadata
        code = f" with exit code {ended.exit_code}" if ended is not None else ""
        which = f" -c {one.name}" if len(pod.spec.containers) > 1 else ""
        logs = f"`dray logs {meta.name} -n {meta.namespace}{which} -p` shows why"
        return f"{_ENDS_AGAIN}: the program of container {one.name} ends{code}; {logs}"
    return ""


def _claims(pod: Pod, known: _Known) -> Iterator[ResourceClaim]:
    namespace = pod.metadata.namespace
    for one in pod.spec.resource_claims:
        meant = claim_for_entry(pod, one)
        if meant is NoClaim.NOT_NEEDED:
            continue
        name = meant.name if isinstance(meant, ClaimName) else ""
        template = (namespace, one.resource_claim_template_name or "")
        if (namespace, name) in known.claims:
            found = known.claims[namespace, name]
            if found.metadata.deletion_timestamp is not None:
                raise InvalidError(f"ResourceClaim {namespace}/{name} is being deleted")
            if one.resource_claim_name is None and not is_for_pod(found, pod, pod_groups=True):
                raise InvalidError(
                    f"ResourceClaim {namespace}/{name} was not created for pod {full_name(pod)}"
                )
            yield found
        elif one.resource_claim_template_name is None:
            raise InvalidError(f"ResourceClaim {namespace}/{name} is not in {known.source}")
        elif template in known.templates:
            yield _made(known.templates[template], f"{pod.metadata.name}-{one.name}")
        else:
            raise InvalidError(f"ResourceClaimTemplate {'/'.join(template)} is not in {known.source}")


def _made(template: ResourceClaimTemplate, name: str) -> ResourceClaim:
    meta = ObjectMeta(name=name, namespace=template.metadata.namespace)
    return ResourceClaim(metadata=meta, spec=template.spec.spec)
