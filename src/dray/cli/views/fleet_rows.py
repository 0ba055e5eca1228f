"""Tables of the fleet: nodes, devices, and the slices they come from. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dray.api.core import Node
from dray.api.resource import ResourceSlice
from dray.apiserver.http.showing.ages import age
from dray.cli.tables import NOTHING, Column, Row, Table, listed
from dray.cli.views.fleet import FleetDevice, fleet, taint_text
from dray.cli.views.objects import Objects
from dray.semantics.devices import Holder, Totals, totals

HOLLOW: Final = "dray.internal/hollow"
_NAME: Final = Column("NAME")
_AGE: Final = Column("AGE", moves=True)


def nodes_table(chosen: Sequence[Node], around: Objects) -> Table:
    """DEVICES: of those that DRA drivers offer there."""
    by_node: dict[str, list[FleetDevice]] = {}
    for one in fleet(around.slices, around.claims, around.rules):
        by_node.setdefault(one.node, []).append(one)
    pods = Counter(
        pod.spec.node_name for pod in around.pods if pod.status.phase not in ("Succeeded", "Failed")
    )
    rows = []
    for node in chosen:
        name, devices = node.metadata.name, by_node.get(node.metadata.name, [])
        use = totals(one.status for one in devices)
        bad = use.tainted + use.unhealthy
        rows.append(
            Row(
                (name,),
                (
                    name,
                    node_state(node),
                    _held(use) if devices else "",
                    str(bad) if bad else "",
                    str(pods[name]),
                    age(node.metadata.creation_timestamp, around.now),
                    node.status.node_info.kubelet_version,
                    "yes" if node.metadata.labels.get(HOLLOW) == "true" else "",
                    next((one.address for one in node.status.addresses if one.type == "InternalIP"), ""),
                    node.status.node_info.container_runtime_version,
                ),
            )
        )
    return Table(
        (
            _NAME,
            Column("STATUS", state=True),
            Column("DEVICES"),
            Column("NOT HEALTHY"),
            Column("PODS"),
            _AGE,
            Column("VERSION"),
            Column("HOLLOW", wide=True),
            Column("INTERNAL-IP", wide=True),
            Column("RUNTIME", wide=True),
        ),
        tuple(rows),
    )


def _held(use: Totals) -> str:
    told = f"{use.held}/{use.devices} held"
    return f"{told}, {use.blocked} blocked" if use.blocked else told


def node_state(node: Node) -> str:
    """As kubectl words it."""
    ready = [one.status for one in node.status.conditions if one.type == "Ready"]
    words = ["Ready" if ready[-1] == "True" else "NotReady"] if ready else ["Unknown"]
    return ",".join([*words, "SchedulingDisabled"] if node.spec.unschedulable else words)


def slices_table(chosen: Sequence[ResourceSlice], around: Objects) -> Table:
    """GENERATION: only slices of a pool's newest one count."""
    rows = [
        Row(
            (one.metadata.name,),
            (
                one.metadata.name,
                one.spec.node_name or ("all nodes" if one.spec.all_nodes else "selected nodes"),
                one.spec.driver,
                one.spec.pool.name,
                str(len(one.spec.devices or ())),
                str(one.spec.pool.generation),
                age(one.metadata.creation_timestamp, around.now),
            ),
        )
        for one in chosen
    ]
    names = ("NODE", "DRIVER", "POOL", "DEVICES", "GENERATION")
    return Table((_NAME, *map(Column, names), _AGE), tuple(rows))


def devices_table(chosen: Sequence[FleetDevice], _: Objects) -> Table:
    """One row a device of the fleet."""
    rows = [
        Row(
            one.key,
            (
                one.node or "-",
                one.driver,
                one.device.name,
                one.product,
                one.status.health,
                holder_text(one),
                one.pool,
                one.attribute("numaNode"),
                one.attribute("pcieRoot"),
                listed(taint_text(each) for each in one.device.taints),
            ),
        )
        for one in chosen
    ]
    columns = (
        Column("NODE"),
        Column("DRIVER"),
        Column("DEVICE"),
        Column("PRODUCT", cut=True),
        Column("HEALTH", state=True),
        Column("HOLDER", cut=True),
        Column("POOL", wide=True),
        Column("NUMA", wide=True),
        Column("PCIE ROOT", wide=True),
        Column("TAINTS", wide=True),
    )
    return Table(columns, tuple(rows))


def holder_text(device: FleetDevice) -> str:
    """The pods that have it, or the claims where no pod does; `free` where it could be had, else who is in the way."""
    names = [name for one in device.holders for name in _named(one)]
    status = device.status
    if names:
        return f"{'free, shared by ' if status.is_held and status.is_free else ''}{listed(dict.fromkeys(names), most=2)}"
    return f"{NOTHING} ({blocked_text(device)})" if status.is_blocked else "free"


def blocked_text(device: FleetDevice) -> str:
    """Why a device that nobody holds cannot be had; "" where it can."""
    if not device.status.is_blocked:
        return ""
    if device.blocked_by:
        return f"counters held by {listed(device.blocked_by, most=2)}"
    return "its pool has not the counters for it"


def _named(holder: Holder) -> tuple[str, ...]:
    if holder.door == "plugin":
        return tuple(f"pod {one} (device plugin)" for one in holder.pods or ("?",))
    if holder.door == "other":
        return (f"claim {holder.claim} (as another device)",)
    return holder.pods or (f"claim {holder.claim}",)
