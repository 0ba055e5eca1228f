"""Rules for `metadata`, the same for every kind but for the name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from dray.api.validation.faults import (
    Rule,
    by_rule,
    forbidden,
    immutable,
    invalid,
    longer_than,
    required,
    too_long,
)

METADATA: Final = Path("metadata")
_MAX_FIELD_MANAGER: Final = 128
_MAX_SUBRESOURCE: Final = 256
_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_STANDARD_FINALIZERS: Final = ("kubernetes", _ORPHAN, _FOREGROUND)
_TEMPLATE_FIELDS: Final = ("labels", "annotations")


@dataclass(frozen=True)
class MetadataRules:
    """How the metadata of a kind differs from that of others."""

    namespaced: bool
    name: Rule
    prefix: Rule | None = None
    """For `generateName`, where it is not the name's rule."""
    plain_finalizers: bool = False
    """Finalizers without a domain may have any name; else only Kubernetes' own may go without."""


def check_metadata(meta: ObjectMeta, rules: MetadataRules) -> list[FieldError]:
    """Metadata of an object about to be created. A `generateName` has become a name before this is asked."""
    errors: list[FieldError] = []
    if meta.generate_name:
        prefix = rules.prefix or rules.name
        errors += by_rule(
            lambda value: names.as_prefix(prefix, value), meta.generate_name, METADATA.child("generateName")
        )
    if not meta.name:
        errors.append(required(METADATA.child("name"), "name or generateName is required"))
    else:
        errors += by_rule(rules.name, meta.name, METADATA.child("name"))
    errors += _namespace(meta, rules.namespaced) + _lists(meta)
    return errors + _finalizers(meta.finalizers, rules.plain_finalizers)


def _namespace(meta: ObjectMeta, namespaced: bool) -> list[FieldError]:
    path = METADATA.child("namespace")
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if meta.namespace else []
    return by_rule(names.dns_label, meta.namespace, path) if meta.namespace else [required(path)]


def _lists(meta: ObjectMeta) -> list[FieldError]:
    errors: list[FieldError] = []
    if meta.generation < 0:
        errors.append(
            invalid(METADATA.child("generation"), meta.generation, "must be greater than or equal to 0")
        )
    errors += check_labels(meta.labels, METADATA.child("labels"))
    errors += check_annotations(meta.annotations, METADATA.child("annotations"))
    errors += _owners(meta.owner_references, METADATA.child("ownerReferences"))
    for position, entry in enumerate(meta.managed_fields):
        errors += _managed_fields(entry, METADATA.child("managedFields").index(position))
    return errors


def check_metadata_update(new: ObjectMeta, old: ObjectMeta, rules: MetadataRules) -> list[FieldError]:
    """Metadata of an object about to be replaced.

    The caller has filled in what a client may leave out: uid, resourceVersion, creation and deletion times.
    """
    errors = check_metadata(new, rules)
    if old.deletion_timestamp is not None and (extra := sorted({*new.finalizers} - {*old.finalizers})):
        text = f"no new finalizers can be added if the object is being deleted, found new finalizers {extra}"
        errors.append(forbidden(METADATA.child("finalizers"), text))
    if not new.resource_version:
        errors.append(invalid(METADATA.child("resourceVersion"), "", "must be specified for an update"))
    if new.generation < old.generation:
        errors.append(invalid(METADATA.child("generation"), new.generation, "must not be decremented"))
    return errors + _fixed(new, old)


def _fixed(new: ObjectMeta, old: ObjectMeta) -> list[FieldError]:
    pairs = (
        ("name", new.name, old.name),
        ("namespace", new.namespace, old.namespace),
        ("uid", new.uid, old.uid),
        ("creationTimestamp", new.creation_timestamp, old.creation_timestamp),
        ("deletionTimestamp", new.deletion_timestamp, old.deletion_timestamp),
        (
            "deletionGracePeriodSeconds",
            new.deletion_grace_period_seconds,
            old.deletion_grace_period_seconds,
        ),
    )
    return [immutable(METADATA.child(field), value) for field, value, before in pairs if value != before]


def check_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """Keys and values of labels, or of a plain node selector."""
    errors: list[FieldError] = []
    for key in sorted(labels):
        errors += by_rule(names.label_key, key, path)
        errors += by_rule(names.label_value, labels[key], path)
    return errors


def check_annotations(annotations: Mapping[str, str], path: Path) -> list[FieldError]:
    """Keys of annotations, and how much they hold together."""
    errors: list[FieldError] = []
    for key in sorted(annotations):
        errors += by_rule(names.annotation_key, key, path)
    if names.annotations_size(annotations):
        errors.append(too_long(path, names.ANNOTATIONS_MAX))
    return errors


def _owners(owners: tuple[OwnerReference, ...], path: Path) -> list[FieldError]:
    """The API server reports them without their position in the list."""
    errors: list[FieldError] = []
    controllers = [f"{owner.kind}/{owner.name}" for owner in owners if owner.controller]
    for owner in owners:
        errors += _owner(owner, path)
    for later in controllers[1:]:
        text = f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]} and {later}'
        errors.append(invalid(path, owners, text))
    return errors


def _owner(owner: OwnerReference, path: Path) -> list[FieldError]:
    errors = []
    version = owner.api_version.rpartition("/")[2]
    if not version or owner.api_version.count("/") > 1:
        errors.append(invalid(path.child("apiVersion"), owner.api_version, "version must not be empty"))
    for field, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
        if not value:
            errors.append(invalid(path.child(field), value, "must not be empty"))
    if (owner.api_version, owner.kind) == ("v1", "Event"):
        errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _finalizers(finalizers: tuple[str, ...], plain: bool) -> list[FieldError]:
    path = METADATA.child("finalizers")
    errors: list[FieldError] = []
    for position, finalizer in enumerate(finalizers):
        errors += by_rule(names.label_key, finalizer, path)
        if not plain:
            errors += check_finalizer_domain(finalizer, path.index(position))
    if {_ORPHAN, _FOREGROUND} <= {*finalizers}:
        text = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, finalizers, text))
    return errors


def check_finalizer_domain(finalizer: str, path: Path) -> list[FieldError]:
    """Only Kubernetes' own finalizers go without a domain."""
    if "/" in finalizer or finalizer in _STANDARD_FINALIZERS:
        return []
    return [invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")]


def _managed_fields(entry: ManagedFieldsEntry, path: Path) -> list[FieldError]:
    errors = []
    if entry.operation not in ("Apply", "Update"):
        errors.append(invalid(path.child("operation"), entry.operation, "must be `Apply` or `Update`"))
    if entry.fields_type not in ("", "FieldsV1"):
        errors.append(invalid(path.child("fieldsType"), entry.fields_type, "must be `FieldsV1`"))
    if longer_than(entry.manager, _MAX_FIELD_MANAGER):
        errors.append(too_long(path.child("manager"), _MAX_FIELD_MANAGER))
    if not entry.manager.isprintable():
        errors.append(invalid(path.child("manager"), entry.manager, "must have printable characters only"))
    if longer_than(entry.subresource, _MAX_SUBRESOURCE):
        errors.append(too_long(path.child("subresource"), _MAX_SUBRESOURCE))
    return errors


def check_template_metadata(meta: ObjectMeta, path: Path) -> list[FieldError]:
    """Metadata that a template hands down: labels and annotations, nothing else."""
    errors = check_annotations(meta.annotations, path.child("annotations"))
    errors += check_labels(meta.labels, path.child("labels"))
    for field, name in zip(meta.__struct_fields__, meta.__struct_encode_fields__, strict=True):
        if getattr(meta, field) not in ("", 0, None, (), {}) and name not in _TEMPLATE_FIELDS:
            shown = "uID" if name == "uid" else name  # the API server derives it from its Go name, UID
            errors.append(forbidden(path.child(shown), "cannot be set"))
    return errors
