"""The entries of metadata.managedFields: who owns which fields, since when, and by which operation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from dray.api.meta import format_time
from dray.api.quoting import quote
from dray.apiserver.patching.apply.fields import PathSet, decode_fields, encode_fields, named
from dray.apiserver.patching.apply.schema import Document
from dray.errors import InvalidError

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MOST_UPDATERS: Final = 10
"""Of the entries of updates, no more are kept; the oldest are put together."""
_ANCIENT: Final = "ancient-changes"

_STRIPPED: Final = PathSet.of(
    *((named(name),) for name in ("apiVersion", "kind", "metadata")),
    *(
        (named("metadata"), named(name))
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


class ManagerId(NamedTuple):
    """What tells two entries apart. One applier is the same in every version, so its version is left empty here."""

    manager: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    @property
    def text(self) -> str:
        """The order of entries of one time is the order of these texts."""
        names = ("manager", "operation", "apiVersion", "subresource")
        held = {name: value for name, value in zip(names, self, strict=True) if value}
        return json.dumps(held, ensure_ascii=False, separators=(",", ":"))

    def __str__(self) -> str:
        """As in the text of a conflict."""
        shown = quote(self.manager)
        if self.subresource:
            shown += f" with subresource {quote(self.subresource)}"
        return f"{shown} using {self.api_version}" if self.operation == UPDATE else shown


def manager_id(manager: str, operation: str, api_version: str, subresource: str) -> ManagerId:
    """The identity of a request; a client that does not say its name is `unknown`."""
    version = "" if operation == APPLY else api_version
    return ManagerId(manager or "unknown", operation, version, subresource)


@dataclass(frozen=True)
class Owned:
    """The fields of one manager, in the version it wrote them in. `since` is None where the entry had no time."""

    fields: PathSet
    api_version: str
    since: datetime | None = None

    def only(self, fields: PathSet) -> Owned:
        """The entry with other fields."""
        return replace(self, fields=fields)


Managers = dict[ManagerId, Owned]


def decode_managers(entries: Any) -> Managers:
    """Reads metadata.managedFields (None: no entry); InvalidError where an entry cannot be understood."""
    managers: Managers = {}
    for index, entry in enumerate(entries or []):
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            raise InvalidError(f"metadata.managedFields[{index}]: operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise InvalidError(f"metadata.managedFields[{index}]: apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            raise InvalidError(f"metadata.managedFields[{index}]: fieldsType must be FieldsV1")
        version = entry["apiVersion"]
        key = ManagerId(
            entry.get("manager") or "",
            entry["operation"],
            "" if entry["operation"] == APPLY else version,
            entry.get("subresource") or "",
        )
        managers[key] = Owned(decode_fields(entry.get("fieldsV1") or {}), version, _moment(entry, index))
    return managers


def _moment(entry: Document, index: int) -> datetime | None:
    text = entry.get("time")
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidError(f"metadata.managedFields[{index}].time: {text!r} is not a time")
    return moment


def encode_managers(managers: Managers) -> list[Document]:
    """The entries: appliers first, then by time, then by name."""
    entries = sorted(managers.items(), key=lambda item: _position(*item))
    return [_encoded(key, owned) for key, owned in entries]


def _position(key: ManagerId, owned: Owned) -> tuple[str, int, str, str, str]:
    return key.operation, _seconds(owned), key.manager, owned.api_version, key.subresource


def _seconds(owned: Owned) -> int:
    return 0 if owned.since is None else int(owned.since.timestamp())


def _encoded(key: ManagerId, owned: Owned) -> Document:
    entry: Document = {"manager": key.manager} if key.manager else {}
    entry |= {"operation": key.operation, "apiVersion": owned.api_version}
    if owned.since is not None:
        entry["time"] = format_time(owned.since)
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": encode_fields(owned.fields)}
    return entry | ({"subresource": key.subresource} if key.subresource else {})


def stripped(managers: Managers, key: ManagerId) -> Managers:
    """Without the fields that identify an object or that the server sets: nobody owns those."""
    if key not in managers:
        return managers
    fields = managers[key].fields.difference(_STRIPPED)
    rest = {other: owned for other, owned in managers.items() if other != key}
    return {**rest, key: managers[key].only(fields)} if fields else rest


def capped(managers: Managers) -> Managers:
    """At most so many updaters: of those of one version, the oldest become `ancient-changes`."""
    updaters = [key for key in managers if key.operation == UPDATE]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return managers
    made, first = dict(managers), dict[str, ManagerId]()
    for key in sorted(updaters, key=lambda key: (_seconds(managers[key]), key.text)):
        if excess <= 0:
            break
        owned = managers[key]
        bucket = ManagerId(_ANCIENT, UPDATE, owned.api_version)
        if owned.api_version not in first:
            first[owned.api_version] = key
            continue
        oldest = first[owned.api_version]
        if bucket not in made:
            made[bucket] = made.pop(oldest)
        fields = made.pop(oldest if key == bucket else key).fields.union(made[bucket].fields)
        made[bucket] = Owned(fields, owned.api_version, owned.since)
        excess -= 1
    return made


def entries_of(document: Mapping[str, Any] | None) -> Any:
    """metadata.managedFields as it is; None where there is none."""
    metadata = (document or {}).get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def with_entries(document: Document, managers: Managers) -> Document:
    """The document with these entries in place of its own."""
    metadata = document.get("metadata")
    metadata = {
        name: value
        for name, value in (metadata if isinstance(metadata, dict) else {}).items()
        if name != "managedFields"
    }
    if managers:
        metadata["managedFields"] = encode_managers(managers)
    return {**document, "metadata": metadata}
