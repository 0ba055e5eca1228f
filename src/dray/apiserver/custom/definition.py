"""A CustomResourceDefinition read, completed and turned into what is served. Pure.

Schemas are used for defaults and for the rules of `schema.py`; unknown fields are kept, whatever the schema says. All
versions of a kind have one form: conversion webhooks are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from dray.api import names
from dray.api.codec import view
from dray.api.field_errors import FieldError, Path
from dray.api.kinds import Resource
from dray.api.meta import Model, ObjectMeta, format_time
from dray.api.validation.faults import by_rule_or_required, forbidden, invalid, not_supported, required
from dray.apiserver.custom.schema import faults_of, fill_defaults
from dray.apiserver.custom.structural import faults_of_schema
from dray.apiserver.served import Column, Document, Field, GenericObject, Served

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""
_SCOPES: Final = ("Cluster", "Namespaced")
_DOORS: Final = ("scale", "status")
_REPLICAS: Final = (".spec.replicas", ".status.replicas")


class Names(Model, frozen=True, kw_only=True):
    """What the kind is called."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class PrinterColumn(Model, frozen=True, kw_only=True):
    """A column of a table."""

    name: str = ""
    type: str = ""
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = msgspec.field(default="", name="jsonPath")


class Schema(Model, frozen=True, kw_only=True):
    """The form of the objects."""

    open_api_v3_schema: dict[str, Any] = msgspec.field(default_factory=dict, name="openAPIV3Schema")


class SelectableField(Model, frozen=True, kw_only=True):
    """A field for field selectors."""

    json_path: str = msgspec.field(default="", name="jsonPath")


class Version(Model, frozen=True, kw_only=True):
    """One version of the kind."""

    name: str = ""
    served: bool = False
    storage: bool = False
    schema: Schema | None = None
    subresources: dict[str, Any] = msgspec.field(default_factory=dict)
    additional_printer_columns: tuple[PrinterColumn, ...] = ()
    selectable_fields: tuple[SelectableField, ...] = ()


class Conversion(Model, frozen=True, kw_only=True):
    """How versions become one another."""

    strategy: str = "None"


class DefinitionSpec(Model, frozen=True, kw_only=True):
    """What is defined."""

    group: str = ""
    names: Names = Names()
    scope: str = ""
    versions: tuple[Version, ...] = ()
    conversion: Conversion = Conversion()


class DefinitionStatus(Model, frozen=True, kw_only=True):
    """What became of it."""

    accepted_names: Names = Names()
    stored_versions: tuple[str, ...] = ()
    conditions: tuple[dict[str, Any], ...] = ()


class Definition(Model, frozen=True, kw_only=True):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


def complete(document: Document, now: datetime) -> None:
    """The status that the server gives a definition on every write, in place. One that can be read is accepted at once."""
    found = view(document, Definition)
    called = document.get("spec", {}).get("names", {})
    status = document.setdefault("status", {})
    stored = list(found.status.stored_versions)
    stored += [one.name for one in found.spec.versions if one.storage and one.name not in stored]
    status |= {"acceptedNames": dict(called), "storedVersions": stored}
    if not status.get("conditions"):
        status["conditions"] = list(_accepted(format_time(now)))


def _accepted(moment: str) -> Iterator[Document]:
    for kind, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        yield {
            "type": kind,
            "status": "True",
            "lastTransitionTime": moment,
            "reason": reason,
            "message": message,
        }


def check(document: Document, reserved: frozenset[str]) -> list[FieldError]:
    """What is wrong with a definition; `reserved` are the groups that the server serves itself."""
    found = view(document, Definition)
    spec, path = found.spec, Path("spec")
    errors = []
    if found.metadata.name != f"{spec.names.plural}.{spec.group}":
        why = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid(Path("metadata").child("name"), found.metadata.name, why))
    errors += by_rule_or_required(names.dns_subdomain, spec.group, path.child("group"))
    if spec.group and spec.group in reserved:
        errors.append(forbidden(path.child("group"), "this group is served by the server itself"))
    errors += by_rule_or_required(names.dns_label, spec.names.plural, path.child("names").child("plural"))
    if not spec.names.kind:
        errors.append(required(path.child("names").child("kind")))
    if spec.scope not in _SCOPES:
        errors.append(not_supported(path.child("scope"), spec.scope, _SCOPES))
    if spec.conversion.strategy != "None":
        known = path.child("conversion").child("strategy")
        errors.append(not_supported(known, spec.conversion.strategy, ("None",)))
    return errors + _check_versions(spec, path.child("versions"))


def _check_versions(spec: DefinitionSpec, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    found = [one.name for one in spec.versions]
    for position, one in enumerate(spec.versions):
        errors += by_rule_or_required(names.dns_label, one.name, path.index(position).child("name"))
        place = path.index(position).child("schema").child("openAPIV3Schema")
        if one.schema is None or not one.schema.open_api_v3_schema:
            errors.append(required(place))
        else:
            errors += faults_of_schema(one.schema.open_api_v3_schema, place)
    if len(set(found)) != len(found):
        errors.append(invalid(path, found, "must contain unique version names"))
    if sum(one.storage for one in spec.versions) != 1:
        errors.append(invalid(path, found, "must have exactly one version marked as storage version"))
    return errors


def served_by(document: Document) -> Served | None:
    """What a stored definition makes be served; None where no version is."""
    found = view(document, Definition).spec
    kept = next((one for one in found.versions if one.storage), None)
    spoken = [one.name for one in found.versions if one.served]
    if kept is None or not spoken:
        return None
    doors = tuple(door for door in _DOORS if door in kept.subresources and _is_usual(door, kept))
    place = Resource(
        found.group,
        kept.name,
        found.names.plural,
        found.names.kind,
        found.scope == "Namespaced",
        GenericObject,
        has_status="status" in doors,
    )
    fill, checked = _rules(kept)
    return Served(
        place,
        found.names.singular or found.names.kind.lower(),
        found.names.short_names,
        found.names.categories,
        doors,
        tuple(_field(one.json_path) for one in kept.selectable_fields),
        tuple(spoken),
        needs_version=True,
        counts_generations=True,
        new_status=b"",
        fill=fill,
        check=checked,
        columns=tuple(map(_column, kept.additional_printer_columns)),
        schemas=tuple(
            (one.name, msgspec.json.encode(one.schema.open_api_v3_schema))
            for one in found.versions
            if one.schema is not None
        ),
        is_custom=True,
    )


def _is_usual(door: str, version: Version) -> bool:
    """`scale` is served where the replicas are at the usual places, which are the only ones looked at."""
    if door != "scale":
        return True
    paths = version.subresources[door]
    if not isinstance(paths, dict):
        return False
    return (paths.get("specReplicasPath"), paths.get("statusReplicasPath")) == _REPLICAS


def _rules(
    version: Version,
) -> tuple[Callable[[Document], None], Callable[[Document], list[FieldError]]]:
    schema = version.schema.open_api_v3_schema if version.schema is not None else {}
    return partial(fill_defaults, schema), partial(faults_of, schema)


def _field(path: str) -> Field:
    name = path.removeprefix(".")
    return Field(name, name)


def _column(one: PrinterColumn) -> Column:
    return Column(one.name, one.json_path, one.type, one.description, one.format, one.priority)
