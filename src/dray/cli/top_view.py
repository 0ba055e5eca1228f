"""What `dray top` shows: sums over the fleet, devices by product, nodes by use, claims that wait, last events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.core import Node, Pod
from dray.api.meta import format_time
from dray.apiserver.http.showing.ages import age
from dray.cli.tables import BOLD, Column, Row, Table, clean, painted
from dray.cli.views.claim_words import about, users, why_claim_waits
from dray.cli.views.fleet import FleetDevice, fleet
from dray.cli.views.fleet_rows import HOLLOW, node_state
from dray.cli.views.objects import Objects
from dray.cli.views.rows import events_table
from dray.semantics.device_names import natural_order
from dray.semantics.devices import Totals, totals

EVENTS_SHOWN: Final = 8
_SMALL: Final = 8
"""Rows of a small section at most, on a screen."""
_PRINTED: Final = 20
"""Rows of each section at most, where there is no screen; `-o json` has all."""
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One node."""

    name: str
    state: str
    hollow: bool
    use: Totals
    pods: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A claim without devices."""

    claim: str
    since: str
    why: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The fleet at one moment."""

    objects: Objects
    whole: Totals
    products: tuple[tuple[str, str, Totals], ...]
    nodes: tuple[NodeUse, ...]
    waiting: tuple[Waiting, ...]
    pods: Mapping[str, int]

    @property
    def pending_pods(self) -> int:
        """Those that do not run yet."""
        return self.pods.get("Pending", 0)


SORTS: Final[Mapping[str, tuple[str, Callable[[NodeUse], Any]]]] = {
    "h": ("held", lambda one: (-one.use.held, natural_order(one.name))),
    "f": ("free", lambda one: (-one.use.free, natural_order(one.name))),
    "u": ("unhealthy", lambda one: (-_not_healthy(one.use), one.state == "Ready", natural_order(one.name))),
    "n": ("name", lambda one: natural_order(one.name)),
}
"""The keys that sort nodes, by what."""


def picture(objects: Objects) -> Picture:
    """From what was read."""
    devices = fleet(objects.slices, objects.claims, objects.rules)
    products: dict[tuple[str, str], list[FleetDevice]] = {}
    by_node: dict[str, list[FleetDevice]] = {}
    for one in devices:
        products.setdefault((one.driver, one.product), []).append(one)
        by_node.setdefault(one.node, []).append(one)
    return Picture(
        objects,
        _use(devices),
        tuple((*key, _use(found)) for key, found in sorted(products.items())),
        tuple(_nodes(objects, by_node)),
        tuple(_waiting(objects)),
        Counter(one.status.phase or "Pending" for one in objects.pods),
    )


def _use(devices: Iterable[FleetDevice]) -> Totals:
    return totals(one.status for one in devices)


def _not_healthy(use: Totals) -> int:
    return use.tainted + use.unhealthy


def _nodes(objects: Objects, by_node: Mapping[str, Sequence[FleetDevice]]) -> Iterable[NodeUse]:
    pods: Counter[str] = Counter(_node_name(one) for one in objects.pods if one.status.phase not in _ENDED)
    for node in objects.nodes:
        name = node.metadata.name
        yield NodeUse(name, node_state(node), _is_hollow(node), _use(by_node.get(name, ())), pods[name])


def _node_name(pod: Pod) -> str:
    return pod.spec.node_name


def _is_hollow(node: Node) -> bool:
    return node.metadata.labels.get(HOLLOW) == "true"


def _waiting(objects: Objects) -> Iterable[Waiting]:
    """The oldest first."""
    by_claim = users(objects.pods)
    classes = [one.metadata.name for one in objects.classes] or None
    pending = [one for one in objects.claims if one.status.allocation is None]
    for one in sorted(
        pending, key=lambda claim: (str(claim.metadata.creation_timestamp), claim.metadata.name)
    ):
        meta = one.metadata
        why = why_claim_waits(one, by_claim.get((meta.namespace, meta.name), []), classes)
        name = f"{meta.namespace}/{meta.name}"
        # What a scheduler says of the pod names the claim and what it lacks last.
        why = why.partition(f"claim {name}, ")[2] or why
        yield Waiting(name, age(meta.creation_timestamp, objects.now), why)


def as_document(found: Picture, server: str) -> dict[str, Any]:
    """For `-o json`: the names of the sums are the dashboard's."""
    summary = {
        "nodes": len(found.nodes),
        **_document(found.whole),
        "pendingPods": found.pending_pods,
        "pendingClaims": len(found.waiting),
    }
    return {
        "server": server,
        "time": format_time(found.objects.now),
        "summary": summary,
        "products": [
            {"driver": driver, "product": product, **_document(use)}
            for driver, product, use in found.products
        ],
        "nodes": [
            {
                "name": one.name,
                "state": one.state,
                "hollow": one.hollow,
                **_document(one.use),
                "pods": one.pods,
            }
            for one in sorted(found.nodes, key=SORTS["n"][1])
        ],
        "pendingClaims": [{"claim": one.claim, "age": one.since, "why": one.why} for one in found.waiting],
        "events": [_event(one) for one in _last_events(found.objects)],
        "notes": list(found.objects.notes),
    }


def _document(use: Totals) -> dict[str, int]:
    return {
        "devices": use.devices,
        "free": use.free,
        "held": use.held,
        "blocked": use.blocked,
        "tainted": use.tainted,
        "unhealthy": use.unhealthy,
    }


def _last_events(objects: Objects) -> list[Any]:
    dated = [(moment, one) for one in objects.events if (moment := one.last_seen) is not None]
    return [
        one for _, one in sorted(dated, key=lambda pair: (pair[0], pair[1].metadata.name))[-EVENTS_SHOWN:]
    ]


def _event(event: Any) -> dict[str, Any]:
    moment = event.last_seen
    return {
        "time": format_time(moment) if moment is not None else "",
        "type": event.type,
        "reason": event.reason,
        "object": f"{event.metadata.namespace}/{about(event)}",
        "message": event.message,
    }


def screen(
    found: Picture, server: str, sort: str, *, width: int | None, height: int | None, colour: bool
) -> list[str]:
    """The lines; with a `height` so many at most, and the nodes get what the other sections leave."""
    most = _SMALL if height is not None else _PRINTED
    waiting, events = _waiting_table(found), _events_table(found)
    small = [_products_table(found), waiting, events]
    kept = [_few(one, most) for one in small]
    head = _head(found, server, colour=colour)
    used = len(head) + sum(len(rows.rows) + more + 2 for rows, more in kept if rows.rows)
    room = _PRINTED if height is None else max(3, height - used - 3)
    nodes = _few(_nodes_table(found, sort), room)
    lines = head
    for table, more in (kept[0], nodes, kept[1], kept[2]):
        if table.rows:
            lines += ["", *table.lines(colour=colour, width=width)]
            lines += [f"… {more} more"] if more else []
    return lines[:height] if height is not None else lines


def _few(table: Table, most: int) -> tuple[Table, int]:
    """The first so many rows, and how many are left out; a line that says so takes the place of a row."""
    if len(table.rows) <= most:
        return table, 0
    return Table(table.columns, table.rows[: most - 1]), len(table.rows) - most + 1


def _head(found: Picture, server: str, *, colour: bool) -> list[str]:
    whole, pods = found.whole, found.pods
    ready = sum(one.state.split(",")[0] == "Ready" for one in found.nodes)
    allocated = len(found.objects.claims) - len(found.waiting)
    blocked = f"{whole.blocked} blocked, " if whole.blocked else ""
    lines = [
        f"{painted('dray top', BOLD, colour=colour)}   {server}   {found.objects.now:%H:%M:%S} UTC",
        f"nodes    {len(found.nodes)}, {ready} ready",
        f"devices  {whole.devices}: {whole.free} free, {whole.held} held, {blocked}{_not_healthy(whole)} unhealthy or tainted",
        f"pods     {pods.get('Running', 0)} running, {found.pending_pods} pending, {pods.get('Failed', 0)} failed",
        f"claims   {allocated} with devices, {len(found.waiting)} waiting",
    ]
    return lines + [f"note: {clean(one)}" for one in found.objects.notes]


def _cells(use: Totals) -> tuple[str, ...]:
    rare = (use.blocked, use.tainted, use.unhealthy)
    return (
        *map(str, (use.devices, use.free, use.held)),
        *(str(number) if number else "" for number in rare),
    )


_USE: Final = tuple(map(Column, ("DEVICES", "FREE", "HELD", "BLOCKED", "TAINTED", "UNHEALTHY")))


def _without_rare(table: Table, found: Picture) -> Table:
    """Where no device is blocked, or none tainted, nobody has to know that they could be."""
    for name, number in (("BLOCKED", found.whole.blocked), ("TAINTED", found.whole.tainted)):
        table = table if number else table.without(name)
    return table


def _products_table(found: Picture) -> Table:
    rows = [
        Row((driver, product), (driver, product, *_cells(use))) for driver, product, use in found.products
    ]
    columns = (Column("DRIVER"), Column("PRODUCT", cut=True), *_USE)
    return _without_rare(Table(columns, tuple(rows)), found)


def _nodes_table(found: Picture, sort: str) -> Table:
    ordered = sorted(found.nodes, key=SORTS[sort][1])
    rows = [
        Row((one.name,), (one.name, one.state, *_cells(one.use), str(one.pods), "yes" if one.hollow else ""))
        for one in ordered
    ]
    columns = (Column("NODE"), Column("STATE", state=True), *_USE, Column("PODS"), Column("SIMULATED"))
    table = _without_rare(Table(columns, tuple(rows)), found)
    return table if any(one.hollow for one in ordered) else table.without("SIMULATED")


def _waiting_table(found: Picture) -> Table:
    rows = [Row((one.claim,), (one.claim, one.since, one.why)) for one in found.waiting]
    return Table((Column("WAITING CLAIM"), Column("AGE"), Column("WHY", cut=True)), tuple(rows))


def _events_table(found: Picture) -> Table:
    """The newest first: here the top is what is seen."""
    table = events_table(_last_events(found.objects), found.objects)
    return Table(table.columns, tuple(reversed(table.rows)))
