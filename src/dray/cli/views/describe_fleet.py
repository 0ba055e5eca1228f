"""A node, a device, a class and a slice in full. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.allocation.cluster.cluster_dump import is_device_resource
from dray.api.core import Event, Node, Pod
from dray.api.quantity import ZERO, Quantity
from dray.api.resource import DeviceClass, ResourceSlice
from dray.apiserver.http.showing.pod_cells import pod_cells
from dray.cli.tables import NOTHING, Table, listed
from dray.cli.views.claim_words import claim_state, classes_of, devices_of
from dray.cli.views.fleet import FleetDevice, attribute_text, fleet, taint_text
from dray.cli.views.fleet_rows import HOLLOW, blocked_text, holder_text, node_state
from dray.cli.views.objects import Objects
from dray.cli.views.rows import pod_devices
from dray.cli.views.sections import (
    Fact,
    Paper,
    events_about,
    events_block,
    meta_facts,
    pairs_text,
    table_of,
)
from dray.semantics.devices import totals
from dray.semantics.pools import by_pool, current, newest_generation, of_generation, pool_of
from dray.semantics.requests import pod_requests

_DOORS = {"dra": "DRA", "plugin": "a device plugin", "other": "another device of the same hardware"}
_ENDED = ("Succeeded", "Failed")
_DEVICES = ("DEVICE", "PRODUCT", "HEALTH", "NUMA", "PCIE ROOT", "HOLDER")


def describe_node(node: Node, around: Objects, paper: Paper) -> list[str]:
    """Its devices by driver with their holders, what device plugins offer and pods ask for, and its pods."""
    name, info = node.metadata.name, node.status.node_info
    addresses = pairs_text({one.type: one.address for one in node.status.addresses})
    lines = paper.facts(
        [
            *meta_facts(node.metadata, around.now),
            ("Status", node_state(node)),
            (
                "Hollow",
                "yes: simulated, runs no containers" if node.metadata.labels.get(HOLLOW) == "true" else "",
            ),
            ("Kubelet", info.kubelet_version),
            ("Runtime", info.container_runtime_version),
            ("System", " ".join(filter(None, [info.os_image, info.kernel_version, info.architecture]))),
            ("Addresses", addresses),
            ("Taints", ", ".join(f"{one.key}={one.value}:{one.effect}" for one in node.spec.taints)),
        ]
    )
    devices = [one for one in fleet(around.slices, around.claims, around.rules) if one.node == name]
    for driver in sorted({one.driver for one in devices}):
        of_driver = [one for one in devices if one.driver == driver]
        lines += paper.block(f"Devices of {driver} ({_counted(of_driver)})", _devices(of_driver))
    if not devices:
        lines += ["", "Devices: no DRA driver offers any here"]
    pods = [one for one in around.pods if one.spec.node_name == name and one.status.phase not in _ENDED]
    lines += paper.block("Resources of device plugins", _resources(node, pods))
    lines += paper.block("Pods", _pods(pods, around), nothing="none")
    conditions = [
        (one.type, one.status, one.reason or NOTHING, one.message) for one in node.status.conditions
    ]
    table = table_of(("TYPE", "STATUS", "REASON", "MESSAGE"), conditions, states=["STATUS"])
    lines += paper.block("Conditions", table)
    return lines + events_block(paper, events_about(around.events, "Node", node.metadata), around.now)


def _counted(devices: Sequence[FleetDevice]) -> str:
    use = totals(one.status for one in devices)
    rest = {"blocked": use.blocked, "not healthy": use.tainted + use.unhealthy}
    return ", ".join(
        [
            f"{use.devices}, {use.held} held",
            *(f"{number} {word}" for word, number in rest.items() if number),
        ]
    )


def _devices(devices: Iterable[FleetDevice]) -> Table:
    rows = [
        (
            one.device.name,
            one.product,
            one.status.health,
            one.attribute("numaNode"),
            one.attribute("pcieRoot"),
            holder_text(one),
        )
        for one in devices
    ]
    return table_of(_DEVICES, rows, states=["HEALTH"])


def _resources(node: Node, pods: Sequence[Pod]) -> Table:
    asked: dict[str, Quantity] = {}
    for pod in pods:
        for name, value in pod_requests(pod).items():
            asked[name] = asked.get(name, ZERO) + value
    names = sorted(one for one in node.status.capacity if is_device_resource(one))
    rows = [
        (
            name,
            str(node.status.capacity[name]),
            str(node.status.allocatable.get(name, ZERO)),
            str(asked.get(name, ZERO)),
        )
        for name in names
    ]
    return table_of(("RESOURCE", "CAPACITY", "ALLOCATABLE", "ASKED FOR"), rows)


def _pods(pods: Sequence[Pod], around: Objects) -> Table:
    claims = {(one.metadata.namespace, one.metadata.name): one for one in around.claims}
    rows = [
        (
            pod.metadata.namespace,
            pod.metadata.name,
            str(pod_cells(pod, around.now)[2]),
            listed(pod_devices(pod, claims), most=4),
        )
        for pod in pods
    ]
    return table_of(("NAMESPACE", "NAME", "STATUS", "DEVICES"), rows, states=["STATUS"])


def describe_device(device: FleetDevice, around: Objects, paper: Paper) -> list[str]:
    """Attributes, capacity, taints, holders, and its story as events tell it."""
    shared = "several may use it at once" if device.device.allow_multiple_allocations else ""
    facts: list[Fact] = [
        ("Device", device.id),
        ("Node", device.node or "not of one node"),
        ("Product", device.product),
        ("Health", device.status.health),
        ("Blocked", blocked_text(device)),
        ("Shared", shared),
        ("Simulated", "yes: there is no hardware behind it" if device.is_simulated else ""),
    ]
    lines = paper.facts(facts)
    taints = [(taint_text(one),) for one in device.device.taints]
    lines += paper.block("Taints", table_of(("TAINT",), taints))
    holders = [
        (one.claim, listed(one.pods), _DOORS[one.door], "admin access" if one.admin else one.share or "whole")
        for one in device.holders
    ]
    lines += paper.block(
        "Held by", table_of(("CLAIM", "PODS", "THROUGH", "SHARE"), holders), nothing="nobody"
    )
    attributes = [(key, attribute_text(value)) for key, value in sorted(device.device.attributes.items())]
    lines += paper.block("Attributes", table_of(("NAME", "VALUE"), attributes))
    capacity = [(key, str(value.value)) for key, value in sorted(device.device.capacity.items())]
    lines += paper.block("Capacity", table_of(("NAME", "VALUE"), capacity))
    taken = [
        (one.counter_set, ", ".join(f"{key} {value.value}" for key, value in sorted(one.counters.items())))
        for one in device.device.consumes_counters
    ]
    lines += paper.block("Takes while it is held", table_of(("COUNTERS OF", "AMOUNTS"), taken))
    return lines + events_block(paper, story(device, around.events), around.now, "Story")


def story(device: FleetDevice, events: Iterable[Event]) -> list[Event]:
    """Events that name it, and those of the claims that hold it now."""
    claims = {one.claim for one in device.holders}
    name = device.device.name
    words = (device.id, f"{device.pool}/{name}", f"{device.node}/{name}")
    found = []
    for one in events:
        about = one.involved_object
        if (
            (about.kind == "ResourceClaim" and f"{about.namespace}/{about.name}" in claims)
            or any(word in one.message for word in words)
            or (about.kind == "Node" and about.name == device.node and name in one.message.split())
        ):
            found.append(one)
    return found


def describe_class(found: DeviceClass, around: Objects, paper: Paper) -> list[str]:
    """What it selects, and who asks for it."""
    lines = paper.facts(
        [
            *meta_facts(found.metadata, around.now),
            ("Extended resource", found.spec.extended_resource_name or ""),
            (
                "Configures",
                ", ".join(one.opaque.driver for one in found.spec.config if one.opaque is not None),
            ),
        ]
    )
    lines += paper.lines(
        "Selectors", [one.cel.expression for one in found.spec.selectors if one.cel is not None]
    )
    name = found.metadata.name
    asking = [
        (claim.metadata.namespace, claim.metadata.name, claim_state(claim), listed(devices_of(claim)))
        for claim in around.claims
        if any(name in one.split("|") for one in classes_of(claim.spec))
    ]
    table = table_of(("NAMESPACE", "NAME", "STATE", "DEVICES"), asking, states=["STATE"])
    return lines + paper.block("Claims that ask for it", table, nothing="none")


def describe_slice(found: ResourceSlice, around: Objects, paper: Paper) -> list[str]:
    """Its devices, and whether it counts."""
    spec = found.spec
    of_pool = by_pool(around.slices).get(pool_of(found), [])
    beside = of_generation(of_pool, spec.pool.generation)
    last, names = newest_generation(of_pool), {one.metadata.name for one in current(of_pool)}
    is_old = last > spec.pool.generation and found.metadata.name not in names
    newest = last if is_old else spec.pool.generation
    counting = of_generation(of_pool, newest)
    lines = paper.facts(
        [
            *meta_facts(found.metadata, around.now),
            ("Driver", spec.driver),
            (
                "Pool",
                f"{spec.pool.name}: {len(counting)} of {spec.pool.resource_slice_count} slices are there",
            ),
            ("Node", spec.node_name or ("all nodes" if spec.all_nodes else "")),
            (
                "Generation",
                f"{spec.pool.generation}" + (f", and {newest} counts: this slice does not" if is_old else ""),
            ),
        ]
    )
    counters = [
        (one.name, ", ".join(f"{key} {value.value}" for key, value in sorted(one.counters.items())))
        for one in spec.shared_counters or ()
    ]
    lines += paper.block("Counters", table_of(("SET", "AMOUNTS"), counters))
    devices = {one.name for one in spec.devices or ()}
    # Its devices may draw on counters that are in another slice of the pool.
    shown = [one for one in fleet(beside, around.claims, around.rules) if one.device.name in devices]
    return lines + paper.block("Devices", _devices(shown), nothing="none")
