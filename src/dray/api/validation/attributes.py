"""Rules for the attributes of a device. Most are fine, so a quick look comes first and paths are built for faults only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_ATTRIBUTE_VALUE_LENGTH
from dray.api.resource.slice import DeviceAttribute
from dray.api.semver import NOT_SEMVER, is_semver
from dray.api.validation.faults import by_rule, invalid, longer_than, shortened, too_long

_READ = 10_000
"""Characters of a version that are looked at; none may have more than 64."""
KEY_SHOWN = 96
"""Bytes of a key that a path shows: a domain, a slash and an id."""


@lru_cache(maxsize=4096)
def is_qualified_name(name: str) -> bool:
    """Whether a key of attributes or capacity is fine; the devices of a slice share theirs."""
    return not names.qualified_name(name)


def is_list(attribute: DeviceAttribute) -> bool:
    """Whether an attribute is a list, which makes the slice hold fewer devices."""
    return (
        attribute.string_values is not None
        or attribute.int_values is not None
        or attribute.bool_values is not None
        or attribute.version_values is not None
    )


def value_count(attribute: DeviceAttribute) -> int:
    """How many values an attribute counts for: the items of a list, else one."""
    if not is_list(attribute):
        return 1
    lists = (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    return sum(len(items) for items in lists if items) or 1


def check_attributes(attributes: Mapping[str, DeviceAttribute], path: Path) -> list[FieldError]:
    """Names and values. The API server reports a bad name at the map, a bad value at its key."""
    errors: list[FieldError] = []
    for name in sorted(attributes):
        if not is_qualified_name(name):
            errors += by_rule(names.qualified_name, name, path)
        if not _is_plain(attributes[name]):
            errors += _attribute(attributes[name], path.key(shortened(name, KEY_SHOWN)))
    return errors


def _is_plain(attribute: DeviceAttribute) -> bool:
    """One scalar, and nothing wrong with it."""
    if is_list(attribute):
        return False
    text, version = attribute.string_value, attribute.version_value
    members = (attribute.int_value is not None) + (attribute.bool_value is not None)
    if text is not None:
        return members == 0 and version is None and not longer_than(text, MAX_ATTRIBUTE_VALUE_LENGTH)
    if version is not None:
        return members == 0 and _is_version(version)
    return members == 1


def _is_version(text: str) -> bool:
    return not longer_than(text, MAX_ATTRIBUTE_VALUE_LENGTH) and is_semver(text)


def _attribute(attribute: DeviceAttribute, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if attribute.string_value is not None:
        errors += _string(attribute.string_value, path.child("string"))
    if attribute.version_value is not None:
        errors += _version(attribute.version_value, path.child("version"))
    for field, items in (
        ("bools", attribute.bool_values),
        ("ints", attribute.int_values),
        ("strings", attribute.string_values),
        ("versions", attribute.version_values),
    ):
        if items == ():
            errors.append(invalid(path.child(field), items, "must not be empty if specified"))
    for position, text in enumerate(attribute.string_values or ()):
        errors += _string(text, path.child("strings").index(position))
    for position, text in enumerate(attribute.version_values or ()):
        errors += _version(text, path.child("versions").index(position))
    members = sum(getattr(attribute, field) is not None for field in attribute.__struct_fields__)
    if members != 1:
        shown = attribute if members else ""
        errors.append(invalid(path, shown, "exactly one value must be specified"))
    return errors


def _string(text: str, path: Path) -> list[FieldError]:
    if longer_than(text, MAX_ATTRIBUTE_VALUE_LENGTH):
        return [too_long(path, MAX_ATTRIBUTE_VALUE_LENGTH)]
    return []


def _version(text: str, path: Path) -> list[FieldError]:
    # Of a text of megabytes that it is too long is enough: reading it takes 200 bytes for each of its parts.
    is_read = len(text) <= _READ
    errors = [] if not is_read or is_semver(text) else [invalid(path, text, NOT_SEMVER)]
    return errors + _string(text, path)
