"""`dray.doors`: what is offered as device plugin, through DRA, or both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.validation.faults import invalid, not_supported
from dray.inventory.doors import Offered

EVERYTHING: Final = "*"
DEFAULT: Final = Offered.PLUGIN
KINDS: Final = ("generic", "iommufd", "mdev", "nvidia", "pci", "sim", "socket", "usb")
"""Those that come with Dray; others may be installed beside it."""


def door_of(doors: Mapping[str, Offered], kind: str, resource: str) -> Offered:
    """The resource's own entry, else the kind's, else that for everything, else `plugin`."""
    for key in (resource, kind, EVERYTHING):
        if key and key in doors:
            return doors[key]
    return DEFAULT


def validate_doors(doors: Mapping[str, str], path: Path) -> list[FieldError]:
    """What is wrong with the keys and with the names of doors."""
    errors: list[FieldError] = []
    for key, value in sorted(doors.items()):
        here = path.key(key)
        if not _is_key(key):
            errors.append(
                invalid(here, key, "must be '*', a kind like 'pci', or a resource like 'example.com/gpu'")
            )
        if value not in tuple(Offered):
            errors.append(not_supported(here, value, tuple(Offered)))
    return errors


def notes_on_doors(doors: Mapping[str, str], resources: Collection[str], path: Path) -> tuple[str, ...]:
    """Entries that concern nothing: a resource that is not served, or a kind that does not come with Dray."""
    known = {EVERYTHING, *KINDS, *resources}
    return tuple(
        f"{path.key(key)} concerns nothing: no kind or resource of that name is served"
        for key in sorted(doors)
        if key not in known and _is_key(key)
    )


def _is_key(key: str) -> bool:
    return key == EVERYTHING or not names.dns_label(key) or not names.extended_resource_name(key)
