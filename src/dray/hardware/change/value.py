"""What a change to the host is: a frozen value that knows its file, its rights, and how to tell that it is done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import msgspec

from dray.errors import InvalidError, InvariantError
from dray.hardware.change.access import Access
from dray.hardware.parse import is_pci_address


class Capability(StrEnum):
    """A right that a change needs, as `docs/reference/host-changes.md` spells it."""

    SYSFS = "root on a writable /sys"
    CHOWN = "CAP_CHOWN"
    FOWNER = "CAP_FOWNER"
    SYS_ADMIN = "CAP_SYS_ADMIN"
    MKNOD = "CAP_MKNOD"
    NVIDIA = "root with the host's /dev/nvidia*"


@dataclass(frozen=True, slots=True)
class Effect:
    """What `perform` did. `changed` is False where all was so already; `undo` restores what was before."""

    changed: bool
    undo: HostChange | None = None


class HostChange(msgspec.Struct, frozen=True, tag=True, tag_field="change", forbid_unknown_fields=True):
    """One write to the host. The value can be stored, logged and sent to another process; doing it twice is fine.

    `files` are the files written, with the fields in braces; `needs` the rights; `undone_by` the change that undoes it;
    `may_block` says that the kernel can hold the writer until whoever uses the device lets go.
    """

    files: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[Capability, ...]] = (Capability.SYSFS,)
    undone_by: ClassVar[str] = ""
    may_block: ClassVar[bool] = False

    @property
    def required(self) -> bool:
        """Whether a failure is an error; else it is reported and life goes on."""
        return True

    @property
    def device(self) -> str:
        """The address, UUID or path that errors and log lines name."""
        raise InvariantError(f"{type(self).__name__} names no device")

    @property
    def target(self) -> str:
        """The first file it writes, as the host names it."""
        return self.files[0].format_map(msgspec.structs.asdict(self))

    def describe(self) -> str:
        """One line for people, in the imperative."""
        raise InvariantError(f"{type(self).__name__} describes nothing")

    def is_so(self, host: Access) -> bool:
        """Whether the host is already as this change would leave it. Only reads, and nothing the kernel may block."""
        raise InvariantError(f"{type(self).__name__} cannot tell")

    def perform(self, host: Access) -> Effect:
        """Do it in this process and wait for the effect. Called by the executor alone."""
        raise InvariantError(f"{type(self).__name__} does nothing")


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*")


def check_address(value: str) -> None:
    """InvalidError unless it is a PCI address as sysfs spells it."""
    if not is_pci_address(value):
        raise InvalidError(
            f"address {value!r} must be a PCI address like 0000:05:00.0, in lower case", field="address"
        )


def check_uuid(value: str) -> None:
    """InvalidError unless it is a UUID as sysfs spells it."""
    _check(_UUID, value, "uuid", "a UUID in lower case")


def check_entry(value: str, field: str) -> None:
    """InvalidError unless it can be the name of one sysfs entry (a driver, a type, a parent device)."""
    _check(_NAME, value, field, "one name without '/'")


def check_path(value: str) -> None:
    """InvalidError unless it is an absolute path without '.', '..' and empty parts."""
    if (
        not value.startswith("/")
        or any(part in ("", ".", "..") for part in value[1:].split("/"))
        or "\0" in value
    ):
        raise InvalidError(
            f"path {value!r} must be absolute, without '.', '..' and empty parts", field="path"
        )


def check_range(value: int, low: int, high: int, field: str) -> None:
    """InvalidError unless low <= value <= high."""
    if not low <= value <= high:
        raise InvalidError(f"{field} {value} must be between {low} and {high}", field=field)


def _check(pattern: re.Pattern[str], value: str, field: str, wanted: str) -> None:
    if not pattern.fullmatch(value):
        raise InvalidError(f"{field} {value!r} must be {wanted}", field=field)
