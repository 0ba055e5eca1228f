"""The HTTP requests of the Kubernetes API, as values: paths, queries and bodies, nothing sent.

Each verb's typed form is on `Client`. For the answer as a plain document: `await client.raw(requests.create(…))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import msgspec

from dray.api.codec import Manifest, encode, to_raw
from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.api.names import path_segment
from dray.client.http import Request
from dray.errors import InvalidError, InvariantError

Document = Mapping[str, Any] | Manifest
Patch = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Query = list[tuple[str, str]]


class PatchType(StrEnum):
    """How a patch is written. STRATEGIC merges lists by key and works for built-in kinds only."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection: one namespace or all (None), and selectors in kubectl's text form."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def query(self) -> Query:
        """As query parameters."""
        pairs = [("labelSelector", self.labels), ("fieldSelector", self.fields)]
        return [(key, value) for key, value in pairs if value]


ALL = Selection()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write may carry. `dry_run`: checked in full by the server, never stored."""

    dry_run: bool = False
    field_manager: str = ""
    strict: bool = False
    force: bool = False

    def query(self) -> Query:
        """As query parameters. `strict` refuses unknown and duplicate fields; `force` is for APPLY alone."""
        query: Query = []
        if self.dry_run:
            query.append(("dryRun", "All"))
        if self.field_manager:
            query.append(("fieldManager", self.field_manager))
        if self.strict:
            query.append(("fieldValidation", "Strict"))
        if self.force:
            query.append(("force", "true"))
        return query


PLAIN = WriteOptions()


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions and manner of a deletion; None leaves it to the server."""

    uid: str | None = None
    resource_version: str | None = None
    propagation: Literal["Orphan", "Background", "Foreground"] | None = None
    grace_period: int | None = None
    dry_run: bool = False

    def body(self) -> dict[str, Any]:
        """As the request's document."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        if preconditions := {key: value for key, value in conditions.items() if value is not None}:
            body["preconditions"] = preconditions
        if self.propagation is not None:
            body["propagationPolicy"] = self.propagation
        if self.grace_period is not None:
            body["gracePeriodSeconds"] = self.grace_period
        if self.dry_run:
            body["dryRun"] = ["All"]
        return body


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must still be so for a patch to be stored; ConflictError if it is not. None: anything goes.

    `uid`: the same incarnation of the object. `resource_version`: nobody wrote since.
    """

    uid: str | None = None
    resource_version: str | None = None

    def into(self, change: Patch) -> Patch:
        """The patch that carries them: the server compares these two fields with the object's, whatever the type."""
        pairs = {"uid": self.uid, "resourceVersion": self.resource_version}
        given = {name: value for name, value in pairs.items() if value is not None}
        if isinstance(change, Mapping):
            return {**change, "metadata": {**(change.get("metadata") or {}), **given}} if given else change
        # Not `test`: where that fails the answer is 422, as if the patch itself were wrong.
        conditions = [
            {"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in given.items()
        ]
        return [*conditions, *change]


def get(resource: Resource[Any], name: str, *, namespace: str | None = None) -> Request:
    """Read one object."""
    return Request("GET", _path(resource, namespace, name))


def page(
    resource: Resource[Any],
    selection: Selection = ALL,
    *,
    limit: int = 0,
    continue_token: str = "",
    resource_version: str = "",
) -> Request:
    """Read a collection, or one page of it (`limit` 0: all at once). Version "" asks for the newest state."""
    query = selection.query()
    if limit:
        query.append(("limit", str(limit)))
    if continue_token:
        query.append(("continue", continue_token))
    elif resource_version:
        query.append(("resourceVersion", resource_version))
    return Request("GET", _collection(resource, selection.namespace), tuple(query))


def watch(
    resource: Resource[Any], selection: Selection, *, resource_version: str, timeout_seconds: int
) -> Request:
    """Follow a collection from a resource version on, with bookmarks, for at most `timeout_seconds`."""
    query = [
        *selection.query(),
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(timeout_seconds)),
    ]
    if resource_version:
        query.append(("resourceVersion", resource_version))
    return Request("GET", _collection(resource, selection.namespace), tuple(query), is_watch=True)


def create(
    resource: Resource[Any],
    document: Document | Model,
    *,
    namespace: str | None = None,
    options: WriteOptions = PLAIN,
) -> Request:
    """Store a new object. A typed value is fine here: it was made by us, so it has no unknown fields to lose."""
    raw = to_raw(document) if isinstance(document, Model) else _plain(document)
    place = _agreed(raw, "namespace", namespace)
    if resource.namespaced and not place:
        raise InvalidError(f"a new {resource.kind} needs a namespace", field="metadata.namespace")
    return Request("POST", _collection(resource, place), tuple(options.query()), _encode(raw))


def create_sub(
    resource: Resource[Any],
    name: str,
    subresource: str,
    document: Document | Model,
    *,
    namespace: str | None = None,
    options: WriteOptions = PLAIN,
) -> Request:
    """Post to a subresource of an object, such as a pod's `binding` or `eviction`."""
    raw = to_raw(document) if isinstance(document, Model) else _plain(document)
    path = _path(resource, namespace, name, subresource)
    return Request("POST", path, tuple(options.query()), _encode(raw))


def update(
    resource: Resource[Any],
    document: Document,
    *,
    subresource: str | None = None,
    options: WriteOptions = PLAIN,
) -> Request:
    """Replace an object by this document, whole. Never from a typed view: that has lost the fields we do not know."""
    if isinstance(document, msgspec.Struct):
        raise InvariantError(
            f"a typed {resource.kind} must not be written back; update a document or send a patch"
        )
    raw = _plain(document)
    path = _path(resource, _agreed(raw, "namespace", None), _agreed(raw, "name", None) or "", subresource)
    return Request("PUT", path, tuple(options.query()), _encode(raw))


def patch(
    resource: Resource[Any],
    name: str,
    change: Patch,
    patch_type: PatchType = PatchType.MERGE,
    *,
    namespace: str | None = None,
    subresource: str | None = None,
    options: WriteOptions = PLAIN,
    preconditions: Preconditions | None = None,
) -> Request:
    """Change some fields. A JSON patch is a list of operations, the other types are partial documents."""
    if (patch_type is PatchType.JSON) != isinstance(change, list | tuple):
        raise InvalidError("a JSON patch is a list of operations, any other patch a partial document")
    if preconditions is not None:
        change = preconditions.into(change)
    path = _path(resource, namespace, name, subresource)
    return Request("PATCH", path, tuple(options.query()), _encode(change), content_type=patch_type.value)


def apply(
    resource: Resource[Any],
    document: Document | Model,
    *,
    manager: str,
    force: bool = False,
    namespace: str | None = None,
    subresource: str | None = None,
    options: WriteOptions = PLAIN,
    preconditions: Preconditions | None = None,
) -> Request:
    """Say which fields `manager` wants and how; the server makes the object, or makes the object so (apply patch)."""
    raw = to_raw(document) if isinstance(document, Model) else _plain(document)
    if not manager:
        raise InvalidError(
            "an apply patch needs a field manager: who wants these fields", field="fieldManager"
        )
    wanted = {"apiVersion": resource.api_version, "kind": resource.kind}
    for field, value in wanted.items():
        if raw.get(field, value) != value:
            raise InvalidError(f"{field}: is {raw[field]!r}, but {resource} are {value}", field=field)
    metadata = raw.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("managedFields"):
        raise InvalidError(
            "metadata.managedFields: must not be in an apply patch; send the wanted fields only",
            field="metadata.managedFields",
        )
    return patch(
        resource,
        _agreed(raw, "name", None) or "",
        {**raw, **wanted},
        PatchType.APPLY,
        namespace=_agreed(raw, "namespace", namespace),
        subresource=subresource,
        options=replace(options, field_manager=manager, force=force),
        preconditions=preconditions,
    )


def delete(
    resource: Resource[Any],
    name: str,
    *,
    namespace: str | None = None,
    options: DeleteOptions | None = None,
) -> Request:
    """Delete one object, or start its deletion if it has finalizers or a grace period."""
    body = _encode((options or DeleteOptions()).body())
    return Request("DELETE", _path(resource, namespace, name), body=body)


def _path(resource: Resource[Any], namespace: str | None, name: str, subresource: str | None = None) -> str:
    """The path of one object. A name that could point elsewhere (empty, `..`, with a slash) never gets this far."""
    _check(resource, "name", name)
    if namespace:
        _check(resource, "namespace", namespace)
    if subresource:
        _check(resource, "subresource", subresource)
    return resource.path(namespace, name, subresource)


def _collection(resource: Resource[Any], namespace: str | None) -> str:
    if namespace:
        _check(resource, "namespace", namespace)
    return resource.path(namespace or None)


def _check(resource: Resource[Any], field: str, value: str) -> None:
    faults = path_segment(value) if value else ["must not be empty"]
    if faults:
        raise InvalidError(f"{resource}: {field} {value!r}: {faults[0]}", field=f"metadata.{field}")


def _plain(document: Document) -> Mapping[str, Any]:
    return document.raw if isinstance(document, Manifest) else document


def _agreed(document: Mapping[str, Any], field: str, given: str | None) -> str | None:
    """The document's own name or namespace; one given beside it must be the same."""
    metadata = document.get("metadata")
    own = metadata.get(field) if isinstance(metadata, Mapping) else None
    if own is not None and not isinstance(own, str):
        raise InvalidError(f"metadata.{field}: is not text", field=f"metadata.{field}")
    if own and given and own != given:
        raise InvalidError(
            f"metadata.{field}: is {own!r}, but {given!r} was asked for", field=f"metadata.{field}"
        )
    return own or given or None


def _encode(document: Any) -> bytes:
    try:
        return encode(document)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidError(f"the document cannot be written as JSON: {error}") from error
