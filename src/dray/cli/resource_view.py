"""What nodes have of the resources that device plugins serve, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dray.cli.manifests import shown_nodes
from dray.cli.tables import BOLD, columns, painted

if TYPE_CHECKING:
    from dray.allocation.explanation.extended import Explained, NodeResource

_MOST_USERS = 8


def resource_lines(found: Explained, *, colour: bool) -> list[str]:
    """What each node has of the resources that device plugins serve, nodes that are alike together, and who uses it."""
    rows = [["NODES", "RESOURCE", "WANTS", "ALLOCATABLE", "IN USE", "FREE", "SHORT BY"]]
    alike: dict[tuple[str, ...], list[str]] = {}
    for one in found.resources:
        alike.setdefault(_resource_row(one), []).append(one.node)
    rows += ([shown_nodes(nodes), *row] for row, nodes in alike.items())
    lines = ["", *columns(rows)] if alike else []
    for name, device_class in found.classes.items():
        lines.append(f"{name}: where no device plugin has it, devices of class {device_class} serve it")
    for title, more in (
        ("In use:", _user_lines(found.resources)),
        ("What would make it fit:", [f"on {node}: {text}" for node, text in found.ways]),
    ):
        if more:
            lines += ["", painted(title, BOLD, colour=colour), *(f"  {line}" for line in more)]
    return lines


def _resource_row(one: NodeResource) -> tuple[str, ...]:
    start = (one.name, str(one.wanted))
    if one.device_class:
        return (*start, f"of class {one.device_class}", "", "", "")
    if one.allocatable is None:
        return (*start, "never had it", "", "", str(one.short))
    ill = f" (of {one.capacity})" if one.unhealthy else ""
    return (
        *start,
        f"{one.allocatable}{ill}",
        str(one.used),
        str(one.free),
        str(one.short) if one.short else "-",
    )


def _user_lines(resources: Sequence[NodeResource]) -> list[str]:
    """Of the nodes that are short."""
    lines = [
        f"{one.name} on {one.node}: {_joined(f'pod {name} ({amount})' for name, amount in one.users)}"
        for one in resources
        if one.users and one.short
    ]
    more = len(lines) - _MOST_USERS
    return lines[:_MOST_USERS] + ([f"and on {more} more nodes (-o json has them all)"] if more > 0 else [])


def _joined(words: Iterable[str]) -> str:
    every = list(words)
    more = len(every) - _MOST_USERS
    return ", ".join(every[:_MOST_USERS]) + (f" and {more} more" if more > 0 else "")


def told_in_table(found: Explained) -> dict[str, str]:
    """By node: the reason that the table of resources tells already."""
    by_node: dict[str, list[str]] = {}
    for one in found.resources:
        if one.short:
            by_node.setdefault(one.node, []).append(str(one))
    return {node: "; ".join(texts) for node, texts in by_node.items()}
