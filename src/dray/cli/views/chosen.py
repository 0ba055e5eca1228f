"""The objects that `dray get` and its like are asked for, found by name, label and namespace; who is not there is told so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dray.api.codec import to_raw, view
from dray.api.kinds import Resource
from dray.cli.cluster import Asked
from dray.cli.kind_names import DEVICES, Kind, Target, nearest
from dray.cli.tables import Table
from dray.cli.views.fleet import FleetDevice, fleet, taint_text
from dray.cli.views.objects import RELATED, Objects, items_of, list_raw, read_related
from dray.cli.views.rows import has_rows, rows_of, server_table
from dray.cli.watching import Followed
from dray.client import requests
from dray.client.requests import ALL, Selection
from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.runtime.clock import SystemClock

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


def selection_for(asked: Asked, resource: Resource[Any], labels: str = "") -> Selection:
    """The namespace that is meant, where the kind has one."""
    return asked.selection(labels) if resource.namespaced else Selection(labels=labels)


async def read_documents(
    asked: Asked, target: Target, labels: str = "", *, only: tuple[str, str] | None = None
) -> list[dict[str, Any]]:
    """Whole documents. NotFoundError, with what to do next, for the first name that is not there."""
    resource = target.kind.resource
    if resource is None:
        return [device_document(one) for one in await read_devices(asked, target, labels)]
    asked.say(f"reading {resource}")
    if only is not None:
        try:
            return [await asked.client.get_raw(resource, only[1], namespace=only[0] or None)]
        except NotFoundError:
            return []
    if target.names and not asked.is_everywhere and not labels:
        return [await read_one(asked, target.kind, name) for name in target.names]
    found = await list_raw(asked.client, resource, selection_for(asked, resource, labels))
    if not target.names:
        return found
    chosen = [one for one in found if one["metadata"]["name"] in target.names]
    missing = set(target.names) - {one["metadata"]["name"] for one in chosen}
    if missing:
        raise _not_there(asked, target.kind, min(missing), [one["metadata"]["name"] for one in found])
    return chosen


async def read_one(asked: Asked, kind: Kind, name: str) -> dict[str, Any]:
    """One object by its name. NotFoundError names the nearest name that there is."""
    resource = kind.resource
    if resource is None:
        raise InvalidError(f"{kind.view} have no documents of their own", field="KIND")
    try:
        namespace = asked.namespace if resource.namespaced else None
        return await asked.client.get_raw(resource, name, namespace=namespace)
    except NotFoundError:
        found = await list_raw(asked.client, resource, selection_for(asked, resource))
        raise _not_there(asked, kind, name, [one["metadata"]["name"] for one in found]) from None


def _not_there(asked: Asked, kind: Kind, name: str, others: Sequence[str]) -> NotFoundError:
    near = nearest(name, others)
    where = f" in namespace {asked.namespace}" if kind.namespaced and not asked.is_everywhere else ""
    everywhere = " -A" if kind.namespaced and not asked.is_everywhere else ""
    hint = f"did you mean {near!r}?" if near else f"`dray get {kind.view}{everywhere}` shows all"
    return NotFoundError(f'no {kind.singular} "{name}"{where}; {hint}', kind=kind.singular, name=name)


async def read_devices(asked: Asked, target: Target, labels: str = "") -> list[FleetDevice]:
    """The devices of these names: `name`, `node/name`, `pool/name` or `driver/pool/name`."""
    _no_labels(labels)
    around = await read_related(asked, RELATED[DEVICES], SystemClock().now)
    return choose_devices(fleet(around.slices, around.claims, around.rules), target.names)


def choose_devices(devices: Sequence[FleetDevice], names: Sequence[str]) -> list[FleetDevice]:
    """NotFoundError for a name that no device has; no names: all."""
    chosen: dict[tuple[str, str, str], FleetDevice] = {}
    for name in names:
        matching = [one for one in devices if name in names_of(one)]
        if not matching:
            near = nearest(name, [word for one in devices for word in names_of(one)])
            hint = f"did you mean {near!r}?" if near else "`dray get devices` shows all"
            raise NotFoundError(f'no device "{name}"; {hint}', kind="device", name=name)
        chosen |= {one.key: one for one in matching}
    return list(chosen.values()) if names else list(devices)


def names_of(device: FleetDevice) -> tuple[str, ...]:
    """What people may call it."""
    name = device.device.name
    return (name, f"{device.node}/{name}", f"{device.pool}/{name}", device.id)


def _no_labels(labels: str) -> None:
    if labels:
        raise InvalidError("-l selects objects by label, and devices have none; leave it out", field="-l")


def device_document(device: FleetDevice) -> dict[str, Any]:
    """A device for programs. Keys stay; others may join."""
    raw, status = to_raw(device.device), device.status
    return {
        "id": device.id,
        "name": device.device.name,
        "driver": device.driver,
        "pool": device.pool,
        "node": device.node,
        "product": device.product,
        "health": status.health.value,
        "state": status.state.value,
        "simulated": device.is_simulated,
        "taints": [taint_text(one) for one in device.device.taints],
        "holders": [
            {
                "claim": one.claim or None,
                "pods": list(one.pods),
                "door": one.door,
                "share": one.share or None,
                "adminAccess": one.admin,
            }
            for one in device.holders
        ],
        "blockedBy": list(device.blocked_by or ()) if status.is_blocked else None,
        "attributes": raw.get("attributes", {}),
        "capacity": raw.get("capacity", {}),
    }


async def read_table(asked: Asked, target: Target, labels: str = "") -> tuple[Table, tuple[str, ...]]:
    """As it is now, and what could not be read for it."""
    view_name, resource = target.kind.view, target.kind.resource
    if resource is None:
        _no_labels(labels)
        around = await read_related(asked, RELATED[view_name], SystemClock().now)
        return devices_of(around, target), around.notes
    if not has_rows(view_name):
        return await ask_table(asked, target, resource, labels), ()
    documents = await read_documents(asked, target, labels)
    around = await read_related(asked, RELATED.get(view_name, ()), SystemClock().now)
    chosen, notes = _views(documents, resource)
    return _narrowed(rows_of(view_name, chosen, around), asked), (*around.notes, *notes)


def devices_of(around: Objects, target: Target) -> Table:
    """The table of devices."""
    found = choose_devices(fleet(around.slices, around.claims, around.rules), target.names)
    return rows_of(DEVICES, found, around)


def _views(documents: Sequence[dict[str, Any]], resource: Resource[Any]) -> tuple[list[Any], list[str]]:
    found, notes = [], []
    for one in documents:
        try:
            found.append(view(one, resource.type))
        except InvalidError as error:
            notes.append(
                f"{resource.kind} {one['metadata'].get('name')} cannot be read and is left out: {error}"
            )
    return found, notes


def _narrowed(table: Table, asked: Asked) -> Table:
    """Namespaces are shown where there are several."""
    return table if asked.is_everywhere else table.without("NAMESPACE")


async def ask_table(asked: Asked, target: Target, resource: Resource[Any], labels: str = "") -> Table:
    """A kind without columns of our own, in its server's words."""
    for name in target.names:
        await read_one(asked, target.kind, name)
    request = requests.page(resource, selection_for(asked, resource, labels))
    told = await asked.client.raw(replace(request, accept=_TABLE))
    table = server_table(told, namespaced=resource.namespaced and asked.is_everywhere)
    if not target.names:
        return table
    return replace(table, rows=tuple(row for row in table.rows if row.key[1] in target.names))


@dataclass(slots=True)
class FollowedTable:
    """One table for `--watch`: which objects to follow, and the table made of them."""

    asked: Asked
    target: Target
    labels: str

    async def begin(self) -> Followed:
        """What to follow. What this user may not read is found out now, and left out."""
        view_name, resource = self.target.kind.view, self.target.kind.resource
        readable = [one for one in RELATED.get(view_name, ()) if await _is_readable(self.asked, one)]
        followed = dict.fromkeys(readable, ALL)
        if resource is None:
            _no_labels(self.labels)
            return followed
        return followed | {resource: selection_for(self.asked, resource, self.labels)}

    async def make(self, around: Objects) -> Table:
        """The table of this moment."""
        kind = self.target.kind
        if kind.resource is None:
            return devices_of(around, self.target)
        if not has_rows(kind.view):
            return await ask_table(self.asked, self.target, kind.resource, self.labels)
        chosen = sorted(
            items_of(around, kind.resource), key=lambda one: (one.metadata.namespace, one.metadata.name)
        )
        if self.target.names:
            chosen = [one for one in chosen if one.metadata.name in self.target.names]
        return _narrowed(rows_of(kind.view, chosen, around, every_column=True), self.asked)


async def _is_readable(asked: Asked, resource: Resource[Any]) -> bool:
    """Neither a right that is missing nor a kind that the server has not ends a watch of something else."""
    try:
        await asked.client.list_page(resource, limit=1)
    except NotFoundError:
        return False
    except DeniedError as error:
        if not error.authenticated:
            raise
        return False
    return True
