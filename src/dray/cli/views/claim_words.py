"""What is said about a claim or a pod in one word or one line: its state, its devices, its node, and why it waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dray.allocation.cluster.cluster_dump import is_device_resource
from dray.api.core import Event, Pod
from dray.api.quantity import Quantity
from dray.api.resource import ResourceClaim
from dray.api.resource.claim import ALL, DeviceSubRequest, ExactDeviceRequest, ResourceClaimSpec
from dray.semantics.claims import claim_names
from dray.semantics.device_names import natural_order
from dray.semantics.requests import pod_requests

_HOSTNAME = "kubernetes.io/hostname"


def claim_state(claim: ResourceClaim) -> str:
    """`reserved` where pods may use it now, `allocated` where it has devices and no pod does."""
    if claim.metadata.deletion_timestamp is not None:
        return "deleting"
    if claim.status.allocation is None:
        return "pending"
    return "reserved" if claim.status.reserved_for else "allocated"


def classes_of(spec: ResourceClaimSpec) -> list[str]:
    """The classes it asks for; alternatives joined by `|`, in their order."""
    found = []
    for request in spec.devices.requests:
        if request.exactly is not None:
            found.append(request.exactly.device_class_name)
        elif request.first_available:
            found.append("|".join(dict.fromkeys(one.device_class_name for one in request.first_available)))
    return list(dict.fromkeys(found))


def amount(request: ExactDeviceRequest | DeviceSubRequest) -> str:
    """How many devices: a number, or `all`."""
    return "all" if request.allocation_mode == ALL else str(request.count or 1)


def devices_of(claim: ResourceClaim) -> list[str]:
    """The names of its devices; with the pool where there are several."""
    if claim.status.allocation is None:
        return []
    results = claim.status.allocation.devices.results
    pools = {(one.driver, one.pool) for one in results}
    names = {one.device if len(pools) == 1 else f"{one.pool}/{one.device}" for one in results}
    return sorted(names, key=natural_order)


def node_of(claim: ResourceClaim, pods: Iterable[Pod] = ()) -> str:
    """Where its devices are; "" where that is not one node, or not decided."""
    selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
    for term in selector.node_selector_terms if selector is not None else ():
        for one in (*term.match_fields, *term.match_expressions):
            if one.key in ("metadata.name", _HOSTNAME) and one.operator == "In" and len(one.values) == 1:
                return one.values[0]
    return next((pod.spec.node_name for pod in pods if pod.spec.node_name), "")


def users(pods: Iterable[Pod]) -> Mapping[tuple[str, str], list[Pod]]:
    """The pods that name each claim, by the claim's namespace and name."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        for name in claim_names(pod):
            found.setdefault((pod.metadata.namespace, name), []).append(pod)
    return found


def why_claim_waits(claim: ResourceClaim, pods: Sequence[Pod], classes: Iterable[str] | None) -> str:
    """In one line; "" where it does not wait. `classes` are those that exist, None where that is not known."""
    if claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
        return ""
    if classes is not None:
        known = set(classes)
        wanted = [word for one in classes_of(claim.spec) for word in one.split("|")]
        if missing := [one for one in wanted if one and one not in known]:
            return f"no DeviceClass {missing[0]}"
    waiting = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if not waiting:
        return "no pod uses it"
    return next((why for pod in waiting if (why := why_pod_waits(pod))), "")


def why_pod_waits(pod: Pod) -> str:
    """What its scheduler or kubelet said; "" where it does not wait and did not fail."""
    if pod.status.phase == "Failed" and pod.status.message:
        return pod.status.message
    if pod.status.phase not in ("", "Pending"):
        return ""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "False":
            return one.message or one.reason
    if not pod.spec.node_name:
        return f"scheduler {pod.spec.scheduler_name or 'default-scheduler'} has not looked at it yet"
    waiting = [one.state.waiting for one in pod.status.container_statuses if one.state.waiting is not None]
    return next((one.message for one in waiting if one.message), "")


def plugin_resources(pod: Pod) -> dict[str, Quantity]:
    """What it requests of device plugins: an init container uses the devices of those that run after it."""
    return {name: amount for name, amount in pod_requests(pod).items() if is_device_resource(name)}


def about(event: Event) -> str:
    """`pod/name`, as kubectl writes it."""
    found = event.involved_object
    return f"{found.kind.lower()}/{found.name}" if found.name else found.kind.lower()


def told_by(event: Event) -> str:
    """Who saw it."""
    return event.source.component or event.reporting_component
