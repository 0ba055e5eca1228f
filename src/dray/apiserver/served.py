"""What the server serves: the kinds with types of their own, and the others out of `served.json`, kept as raw JSON.

The file lists what kubectl, kubelet, kube-scheduler and the controller manager ask for. A kind of which an API server
would have to act on the objects (webhooks) is left out: storing them would be a lie. Kinds that definitions bring at run
time come from `custom/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from dray.api import kinds, names
from dray.api.field_errors import FieldError
from dray.api.kinds import Resource
from dray.api.meta import Model, ObjectMeta
from dray.api.selectors import FieldMatcher
from dray.api.validation.faults import Rule
from dray.apiserver.store.contract import Key
from dray.errors import InvalidError, NotFoundError

Document = dict[str, Any]
_NAME_RULES: Final[dict[str, Rule]] = {
    "": names.dns_subdomain,
    "path": names.path_segment,
    "label": names.dns_label,
}


class GenericObject(Model, frozen=True, kw_only=True):
    """The view of a kind without a type of its own: only its metadata is looked at."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True)
class Field:
    """A field that a list can be narrowed by: its label in the selector, where it is, and what an absent one is."""

    label: str
    path: str
    absent: str = ""

    def value(self, document: Mapping[str, Any]) -> str:
        """The field of a document as text; a value of another form counts as absent."""
        found: Any = document
        for step in self.path.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        if isinstance(found, bool):
            return "true" if found else "false"
        return str(found) if isinstance(found, str | int) else self.absent


@dataclass(frozen=True)
class Column:
    """A column of a table as a definition words it; `path` is a JSON path."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Served:
    """Everything known about one resource."""

    resource: Resource[Any]
    """Its place; `resource.type` is GenericObject where there is no type of its own."""
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    """Selectable besides `metadata.name` and, where it has one, `metadata.namespace`."""
    versions: tuple[str, ...] = ()
    """All versions served, all of one form; documents are kept in the first."""
    creates_on_update: bool = False
    needs_version: bool = False
    """An update must name the resourceVersion it was made from."""
    counts_generations: bool = False
    returns_deleted: bool = False
    """A deletion answers with the object instead of a Status."""
    orphans: bool = False
    """A deletion that does not say otherwise leaves the dependents alone."""
    collects: bool = True
    """Whether a deletion can wait for dependents at all."""
    name_rule: Rule = names.dns_subdomain
    new_status: bytes = b"{}"
    """The status of a new object as JSON, where there is a door to it; empty where it has none then."""
    fill: Callable[[Document], None] | None = None
    """Fills in the defaults that a custom resource's definition gives."""
    check: Callable[[Document], list[FieldError]] | None = None
    """The rules of its schema."""
    schemas: tuple[tuple[str, bytes], ...] = ()
    """Its versions with their OpenAPI schemas as JSON."""
    columns: tuple[Column, ...] = ()
    """What a table shows of a custom resource besides its name."""
    kept_as: str = ""
    """The resource whose objects these are too, in another form."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition brought it."""

    @property
    def typed(self) -> bool:
        """Whether defaults and rules of `dray.api` are known for it."""
        return self.resource.type is not GenericObject

    @property
    def group_kind(self) -> str:
        """As in the text of an error: `Pod`, `ResourceClaim.resource.k8s.io`."""
        group = self.resource.group
        return f"{self.resource.kind}.{group}" if group else self.resource.kind

    def api_version(self, version: str) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.resource.group}/{version}" if self.resource.group else version

    def key(self, namespace: str, name: str) -> Key:
        """Where the store keeps the object."""
        return Key(self.kept_as or str(self.resource), namespace if self.resource.namespaced else "", name)

    def selectable(self, document: Mapping[str, Any]) -> dict[str, str]:
        """The values a field selector is compared with."""
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        found = {"metadata.name": str(metadata.get("name", ""))}
        if self.resource.namespaced:
            found["metadata.namespace"] = str(metadata.get("namespace", ""))
        values = {one.label: one.value(document) for one in self.fields}
        if values.get("source") == "" and self.resource.kind == "Event":
            values["source"] = values.get("reportingComponent", "")
        return found | values

    def check_fields(self, selector: FieldMatcher) -> None:
        """Refuse a selector over a field that the kind does not offer."""
        known = {"metadata.name", *(one.label for one in self.fields)}
        if self.resource.namespaced:
            known.add("metadata.namespace")
        for term in selector.terms:
            if term.field not in known:
                raise InvalidError(f"field label not supported: {term.field}", field="fieldSelector")


class Serving:
    """All that is served, found by place in the API and by kind."""

    def __init__(self, served: Iterable[Served]) -> None:
        self.all: Final = tuple(served)
        self._by_place = {
            (one.resource.group, version, one.resource.plural): one
            for one in self.all
            for version in one.versions
        }
        self._by_kind = {
            (one.api_version(version), one.resource.kind): one for one in self.all for version in one.versions
        }
        self._by_resource = {str(one.resource): one for one in self.all}

    def at(self, group: str, version: str, plural: str) -> Served:
        """What is served at this place. NotFoundError has the API server's text for a path nobody serves."""
        found = self._by_place.get((group, version, plural))
        if found is None:
            raise NotFoundError("the server could not find the requested resource", kind=plural)
        return found

    def of_kind(self, api_version: str, kind: str) -> Served | None:
        """What an owner reference or a document with these words belongs to."""
        return self._by_kind.get((api_version, kind))

    def of_key(self, key: Key) -> Served:
        """What a stored object is one of."""
        return self._by_resource[key.resource]

    def __contains__(self, resource: object) -> bool:
        """Whether objects of this resource, as the store names it, are served."""
        return resource in self._by_resource

    def kept(self, served: Served) -> Served:
        """The kind whose rules hold for a write: that in whose form the objects are kept."""
        return self._by_resource[served.kept_as] if served.kept_as else served


def _fields(*paths: str, **absent: str) -> tuple[Field, ...]:
    return tuple(Field(path, path, absent.get(path.rpartition(".")[2], "")) for path in paths)


_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS: Final = (
    *_fields(*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "type"),
    Field("source", "source.component"),
)
_POD_FIELDS: Final = _fields(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
    hostNetwork="false",
)
_V1: Final = ("v1",)

TYPED: Final = (
    Served(
        kinds.PODS,
        "pod",
        ("po",),
        ("all",),
        ("status", "binding", "eviction"),
        _POD_FIELDS,
        _V1,
        returns_deleted=True,
    ),
    Served(
        kinds.NODES,
        "node",
        ("no",),
        (),
        ("status",),
        _fields("spec.unschedulable", unschedulable="false"),
        _V1,
    ),
    Served(
        kinds.NAMESPACES,
        "namespace",
        ("ns",),
        (),
        ("status", "finalize"),
        _fields("status.phase"),
        _V1,
        returns_deleted=True,
    ),
    Served(
        kinds.EVENTS, "event", ("ev",), (), (), _EVENT_FIELDS, _V1, creates_on_update=True, collects=False
    ),
    Served(kinds.CONFIG_MAPS, "configmap", ("cm",), versions=_V1),
    Served(kinds.LEASES, "lease", versions=_V1, creates_on_update=True, needs_version=True),
    Served(
        kinds.RESOURCE_SLICES,
        "resourceslice",
        fields=_fields("spec.nodeName", "spec.driver"),
        versions=_V1,
        returns_deleted=True,
    ),
    Served(kinds.DEVICE_CLASSES, "deviceclass", versions=_V1, returns_deleted=True),
    Served(
        kinds.RESOURCE_CLAIMS, "resourceclaim", subresources=("status",), versions=_V1, returns_deleted=True
    ),
    Served(kinds.RESOURCE_CLAIM_TEMPLATES, "resourceclaimtemplate", versions=_V1, returns_deleted=True),
    Served(
        kinds.DEVICE_TAINT_RULES,
        "devicetaintrule",
        subresources=("status",),
        versions=("v1beta2",),
        returns_deleted=True,
    ),
)


class _Row(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One resource of the data file."""

    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: dict[str, tuple[str, str]] = {}
    creates_on_update: bool = False
    needs_version: bool = False
    counts_generations: bool = False
    returns_deleted: bool = False
    orphans: bool = False
    name_rule: str = ""
    new_status: msgspec.Raw = msgspec.Raw(b"")
    kept_as: str = ""


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The resources of one version of a group."""

    group: str
    version: str
    resources: tuple[_Row, ...]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data file."""

    groups: tuple[_Group, ...]


def _generic(group: _Group, row: _Row) -> Served:
    place = Resource(
        group.group,
        group.version,
        row.plural,
        row.kind,
        row.namespaced,
        GenericObject,
        has_status="status" in row.subresources,
    )
    return Served(
        place,
        row.singular,
        row.short_names,
        row.categories,
        row.subresources,
        tuple(Field(label, path, absent) for label, (path, absent) in sorted(row.fields.items())),
        (group.version,),
        creates_on_update=row.creates_on_update,
        needs_version=row.needs_version,
        counts_generations=row.counts_generations,
        returns_deleted=row.returns_deleted,
        orphans=row.orphans,
        collects=row.kind != "Event",
        name_rule=_NAME_RULES[row.name_rule],
        new_status=bytes(row.new_status),
        kept_as=row.kept_as,
    )


@cache
def standard() -> Serving:
    """All kinds this server knows; read from the data file once."""
    text = resources.files("dray.apiserver").joinpath("served.json").read_bytes()
    table = msgspec.json.decode(text, type=_Table)
    return Serving((*TYPED, *(_generic(group, row) for group in table.groups for row in group.resources)))
