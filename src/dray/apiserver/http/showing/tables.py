"""Lists as tables, which `kubectl get` asks for: the columns of Kubernetes' own server, for other kinds name and age. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from dray.api.codec.json_codec import view
from dray.api.core import ConfigMap, Event, Lease, Namespace, Node, Pod
from dray.api.meta import Model
from dray.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.apiserver.custom.columns import found_at
from dray.apiserver.http.showing.ages import UNKNOWN, age
from dray.apiserver.http.showing.pod_cells import NONE, pod_cells
from dray.apiserver.http.showing.workload_cells import RAW_CELLS, as_core_event, moment
from dray.apiserver.served import Column, GenericObject, Served

Document = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_NAME_PREFIX = "node-role.kubernetes.io/"
_ENDED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass(frozen=True, slots=True)
class _Printed:
    """Column names, those only shown when wide with a `+`, and what fills them."""

    columns: tuple[str, ...]
    cells: Callable[[Any, datetime], list[object]]
    sees: type = Model
    """What the cells are filled from: a view, or (Mapping) the document itself."""


def table(
    served: Served, documents: Iterable[Mapping[str, Any]], metadata: Document, include: str, now: datetime
) -> Document:
    """`include` is the client's `includeObject`: Metadata (also when empty), Object or None."""
    printed = _printed(served)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_column(name) for name in printed.columns] + [*map(_custom, served.columns)],
        "rows": [_row(served, printed, one, include, now) for one in documents],
    }


def _printed(served: Served) -> _Printed:
    """Kinds kept as raw JSON are filled from the document, not from a view."""
    place = str(served.resource)
    if place in RAW_CELLS:
        columns, cells = RAW_CELLS[place]
        return _Printed(columns, cells, Mapping)
    if served.kept_as:
        return _Printed((*_EVENT, "+Count", "+Name"), _other_event, Mapping)
    if served.columns:
        return _Printed(("Name",), partial(_custom_cells, served.columns), Mapping)
    return _PRINTED.get(served.resource.type, _PLAIN)


def _custom(column: Column) -> Document:
    """A column that a definition asks for."""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _custom_cells(columns: tuple[Column, ...], document: Document, now: datetime) -> list[object]:
    cells: list[object] = [document["metadata"]["name"]]
    for column in columns:
        value = found_at(column.path, document)
        if column.type == "date":
            value = age(moment(value), now) if value is not None else UNKNOWN
        elif isinstance(value, dict | list):
            value = msgspec.json.encode(value).decode()
        cells.append(value)
    return cells


def _other_event(document: Document, now: datetime) -> list[object]:
    return _event(view(as_core_event(document), Event), now)


def _column(name: str) -> Document:
    is_wide = name.startswith("+")
    name = name.removeprefix("+")
    return {
        "name": name,
        "type": "string",
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": int(is_wide),
    }


def _row(
    served: Served, printed: _Printed, document: Mapping[str, Any], include: str, now: datetime
) -> Document:
    seen = document if printed.sees is Mapping else view(document, served.resource.type)
    row: Document = {"cells": printed.cells(seen, now)}
    if isinstance(seen, Pod) and seen.status.phase in _ENDED:
        message = _ENDED[seen.status.phase]
        ended = {"type": "Completed", "status": "True", "reason": seen.status.phase, "message": message}
        row["conditions"] = [ended]
    if include == "Object":
        row["object"] = document
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": document["metadata"],
        }
    return row


def _plain(found: GenericObject, now: datetime) -> list[object]:
    return [found.metadata.name, age(found.metadata.creation_timestamp, now)]


def _named(found: DeviceClass | ResourceClaimTemplate, now: datetime) -> list[object]:
    return [found.metadata.name, age(found.metadata.creation_timestamp, now)]


def _node(found: Node, now: datetime) -> list[object]:
    ready = [one.status for one in found.status.conditions if one.type == "Ready"]
    words = ["Ready" if ready[-1] == "True" else "NotReady"] if ready else ["Unknown"]
    if found.spec.unschedulable:
        words.append("SchedulingDisabled")
    info = found.status.node_info
    kernel = info.kernel_version or UNKNOWN
    return [
        found.metadata.name,
        ",".join(words),
        ",".join(_roles(found.metadata.labels)) or NONE,
        age(found.metadata.creation_timestamp, now),
        info.kubelet_version,
        _address(found, "InternalIP"),
        _address(found, "ExternalIP"),
        info.os_image or UNKNOWN,
        f"{kernel} ({info.architecture})" if info.architecture else kernel,
        info.container_runtime_version or UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    found = {key.removeprefix(_NAME_PREFIX) for key in labels if key.startswith(_NAME_PREFIX)}
    return sorted((found | {labels.get("kubernetes.io/role", "")}) - {""})


def _address(found: Node, kind: str) -> str:
    return next((one.address for one in found.status.addresses if one.type == kind), NONE)


def _namespace(found: Namespace, now: datetime) -> list[object]:
    return [found.metadata.name, found.status.phase, age(found.metadata.creation_timestamp, now)]


def _event(found: Event, now: datetime) -> list[object]:
    first = age(found.first_timestamp or _moment(found.event_time), now)
    last = age(found.last_timestamp, now) if found.last_timestamp else first
    count = found.count or 1
    if found.series is not None:
        last, count = age(_moment(found.series.last_observed_time), now), found.series.count
    about = found.involved_object
    source = [
        found.source.component or found.reporting_component,
        found.source.host or found.reporting_instance,
    ]
    return [
        last,
        found.type,
        found.reason,
        about.kind.lower() + (f"/{about.name}" if about.name else ""),
        about.field_path,
        ", ".join(source if source[1] else source[:1]),
        found.message.strip(),
        first,
        count,
        found.metadata.name,
    ]


def _moment(text: str | None) -> datetime | None:
    """A moment with microseconds, which stays text elsewhere."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def _config_map(found: ConfigMap, now: datetime) -> list[object]:
    count = len(found.data) + len(found.binary_data)
    return [found.metadata.name, count, age(found.metadata.creation_timestamp, now)]


def _lease(found: Lease, now: datetime) -> list[object]:
    holder = found.spec.holder_identity or ""
    return [found.metadata.name, holder, age(found.metadata.creation_timestamp, now)]


def _slice(found: ResourceSlice, now: datetime) -> list[object]:
    spec = found.spec
    born = age(found.metadata.creation_timestamp, now)
    return [found.metadata.name, spec.node_name or "", spec.driver, spec.pool.name, born]


def _claim(found: ResourceClaim, now: datetime) -> list[object]:
    is_going = found.metadata.deletion_timestamp is not None
    words = ["deleted"] if is_going else []
    if found.status.allocation is not None:
        words += ["allocated"] + ["reserved"] * bool(found.status.reserved_for)
    elif not is_going:
        words.append("pending")
    return [found.metadata.name, ",".join(words), age(found.metadata.creation_timestamp, now)]


def _taint_rule(found: DeviceTaintRule, now: datetime) -> list[object]:
    taint = found.spec.taint
    added = age(taint.time_added, now) if taint.time_added else ""
    born = age(found.metadata.creation_timestamp, now)
    return [found.metadata.name, taint.key, taint.value, str(taint.effect), added, born]


_WIDE_NODE = ("+Internal-IP", "+External-IP", "+OS-Image", "+Kernel-Version", "+Container-Runtime")
_POD = ("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates")
_EVENT = ("Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen")
_PLAIN = _Printed(("Name", "Age"), _plain)
_PRINTED: Mapping[type[Model], _Printed] = {
    Pod: _Printed(_POD, pod_cells),
    Node: _Printed(("Name", "Status", "Roles", "Age", "Version", *_WIDE_NODE), _node),
    Namespace: _Printed(("Name", "Status", "Age"), _namespace),
    Event: _Printed((*_EVENT, "+Count", "+Name"), _event),
    ConfigMap: _Printed(("Name", "Data", "Age"), _config_map),
    Lease: _Printed(("Name", "Holder", "Age"), _lease),
    ResourceSlice: _Printed(("Name", "Node", "Driver", "Pool", "Age"), _slice),
    ResourceClaim: _Printed(("Name", "State", "Age"), _claim),
    DeviceClass: _Printed(("Name", "Age"), _named),
    ResourceClaimTemplate: _Printed(("Name", "Age"), _named),
    DeviceTaintRule: _Printed(("Name", "Key", "Value", "Effect", "TimeAdded", "Age"), _taint_rule),
}


def wants_table(accept: str) -> bool:
    """Whether an Accept header asks for a table before anything else this server can give."""
    for one in accept.split(","):
        words = [word.strip() for word in one.split(";")]
        if words[0] != "application/json" and words[0] != "*/*":
            continue
        return "as=Table" in words and "g=meta.k8s.io" in words and "v=v1" in words
    return False
