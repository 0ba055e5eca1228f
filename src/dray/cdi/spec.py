"""A CDI spec: its types, and how a file becomes one. Every fault knows its file, line and field.

The types hold what a file says, right or wrong; `validate.py` tells which. Empty means "not said", but where None is
possible: then None does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from dray.api.field_errors import FieldError, Reason
from dray.cdi.document import read_document
from dray.cdi.edits import ContainerEdits
from dray.cdi.typed import Reading, to_struct
from dray.errors import InvalidError

Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Unsigned = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class NodeEdit(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A device node to make. What is not said is taken from the host's node, at `host_path` or else `path`.

    `permissions` are the cgroup's: some of r, w and m; empty means all, `none` none.
    """

    path: str
    host_path: str = ""
    type: str = ""
    major: Integer = 0
    minor: Integer = 0
    file_mode: Unsigned | None = None
    permissions: str = ""
    uid: Unsigned | None = None
    gid: Unsigned | None = None


class NetDeviceEdit(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A network interface to move into the container, under `name`. Since 1.1.0."""

    host_interface_name: str
    name: str


class HookEdit(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A program that the runtime starts at a point of the container's life."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: Integer | None = None


class MountEdit(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A mount. `type` since 0.4.0."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class RdtEdit(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Cache and memory bandwidth of the container. Since 0.7.0; `schemata` and `enable_monitoring` since 1.1.0."""

    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


class Edits(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is changed in a container, in the words of a CDI file."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[NodeEdit, ...] = ()
    net_devices: tuple[NetDeviceEdit, ...] = ()
    hooks: tuple[HookEdit, ...] = ()
    mounts: tuple[MountEdit, ...] = ()
    intel_rdt: RdtEdit | None = None
    additional_gids: tuple[Unsigned, ...] = ()

    def __bool__(self) -> bool:
        return self != Edits()


class SpecDevice(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A device that containers can ask for, as `<kind>=<name>`."""

    name: str
    container_edits: Edits
    annotations: dict[str, str] = {}


class Spec(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One file. `container_edits` come to every container that gets one of the devices, once."""

    version: str = msgspec.field(name="cdiVersion")
    kind: str
    devices: tuple[SpecDevice, ...]
    container_edits: Edits = Edits()
    annotations: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a file, or a note on it. str() is one line; `line` is 0 where it is not known."""

    source: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return (
            f"{place}: {FieldError(self.field, Reason.INVALID, self.message)}"
            if self.field
            else f"{place}: {self.message}"
        )


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file that was read. Where it has `faults`, `spec` has the rest, for a reader who asks what it was meant to be.

    `lines` are those of the fields that are there. `more_at` is the line of a second document, which never counts.
    """

    source: str
    spec: Spec
    faults: tuple[Fault, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    more_at: int = 0

    def place(self, errors: Iterable[FieldError]) -> tuple[Fault, ...]:
        """The faults with their lines: that of the field, or of what it is missing in. In order of lines."""
        placed = [Fault(self.source, self._line(one.field), one.field, one.message) for one in errors]
        return tuple(sorted(placed, key=lambda fault: fault.line))

    def _line(self, name: str) -> int:
        while name:
            if line := self.lines.get(name):
                return line
            name = name[: max(name.rfind("."), name.rfind("["), 0)]
        return 1 if self.lines else 0


def read_spec(data: str | bytes, source: str) -> SpecFile:
    """The file as it is, with the faults of its form: unknown fields, wrong types. `validate.py` finds the others.

    InvalidError where the text is no YAML or JSON at all, or no map.
    """
    document = read_document(data, source)
    reading = Reading()
    spec = to_struct(document.root, Spec, reading)
    if any(not fault.field for fault in reading.faults):
        raise InvalidError(f"{source}:{document.root.line}: a CDI spec must be a map", field=source)
    read = SpecFile(source, spec, (), reading.lines, document.more_at)
    return SpecFile(source, spec, read.place(reading.faults), reading.lines, document.more_at)


def to_document(value: msgspec.Struct) -> dict[str, Any]:
    """The spec, or a part, as plain data for JSON or YAML: the fields that are said, in a fixed order."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return made


def spec_edits(parcel: ContainerEdits) -> Edits:
    """What a driver gives, in the words of a CDI file that old runtimes understand too.

    InvalidError for annotations: a CDI file has no way to set them on a container.
    """
    if parcel.annotations:
        names = ", ".join(name for name, _ in parcel.annotations)
        raise InvalidError(f"annotations cannot be given through CDI: {names}", field="annotations")
    return Edits(
        env=tuple(f"{name}={value}" for name, value in parcel.env),
        device_nodes=tuple(
            NodeEdit(
                path=node.container_path,
                host_path="" if node.host_path == node.container_path else node.host_path,
                permissions=node.permissions,
            )
            for node in parcel.device_nodes
        ),
        mounts=tuple(
            MountEdit(
                mount.host_path,
                mount.container_path,
                ("rbind", "rprivate", "ro" if mount.read_only else "rw"),
            )
            for mount in parcel.mounts
        ),
    )
