"""An author's values in the words of `drivers/contract.py`, and back. Pure.

Back, because a claim may be given back by a process that never saw its device: what is stored is all there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from dray.api.quantity import Quantity, parse_quantity
from dray.api.resource.slice import DeviceCapacity
from dray.cdi.edits import ContainerEdits, DeviceNode, Mount, merge
from dray.drivers import contract
from dray.drivers.contract import Health
from dray.drivers.naming import ID_CHARACTERS, slice_name
from dray.errors import InvalidError
from dray.hardware.facts import showable
from dray.hardware.parse import is_pci_address
from dray.sdk.values import Device, Edits

MAX_SHARES: Final = 9999
_PCI: Final = "pci:"
_HostPath = Annotated[str, Meta(pattern=r"^/[^\x00]*$")]
_ROOM: Final = 5
"""What a share adds to an id, at most: a dash and its number."""


class _Facts(msgspec.Struct):
    """What a device must look like; msgspec tells which field does not."""

    id: Annotated[str, Meta(min_length=1, max_length=ID_CHARACTERS)]
    nodes: tuple[_HostPath, ...]
    mounts: tuple[_HostPath, ...]
    attributes: dict[str, str | int | bool]
    versions: dict[str, str]
    capacity: dict[str, str | int]
    shares: Annotated[int, Meta(ge=1, le=MAX_SHARES)] | None
    numa_node: Annotated[int, Meta(lt=1024)] | None
    pci_address: str
    problem: str


def to_contract(device: Device, kind: str, resource: str) -> contract.Device:
    """InvalidError where it is not a device that can be handed out. `addresses` are the mounts among the paths."""
    facts = _checked(device)
    paths = tuple(dict.fromkeys((*facts.nodes, *facts.mounts)))
    capacity = {
        name: DeviceCapacity(value=_quantity(facts.id, name, value)) for name, value in facts.capacity.items()
    }
    return contract.Device(
        id=facts.id,
        kind=kind,
        resource=resource,
        health=Health.UNHEALTHY if facts.problem else Health.HEALTHY,
        reason=showable(facts.problem),
        label=facts.id,
        numa_node=facts.numa_node if facts.numa_node is not None and facts.numa_node >= 0 else None,
        attributes=dict(sorted(facts.attributes.items())),
        paths=paths,
        watch=paths,
        shares=facts.shares,
        addresses=facts.mounts,
        permissions="rw",
        name=slice_name(facts.id),
        versions=dict(sorted(facts.versions.items())),
        capacity=dict(sorted(capacity.items())),
        hardware=(f"{_PCI}{facts.pci_address}",) if facts.pci_address else (),
    )


def _checked(device: Device) -> _Facts:
    """InvalidError names the device and the field."""
    given: object = device
    if not isinstance(given, Device):
        raise InvalidError(f"{given!r:.100} is not a dray.sdk.Device", field="device")
    try:
        facts = msgspec.convert(given, _Facts, from_attributes=True)
    except msgspec.ValidationError as error:
        raise InvalidError(f"device {device.id!r:.100} is left out: {error}", field="device") from error
    if not facts.id.isprintable() or (facts.shares is not None and len(facts.id) > ID_CHARACTERS - _ROOM):
        text = f"device {facts.id!r} is left out: its id must be printable and short: {ID_CHARACTERS} characters, less {_ROOM} if shared"
        raise InvalidError(text, field="id")
    if facts.pci_address and not is_pci_address(facts.pci_address):
        text = f"device {facts.id} is left out: pci_address {facts.pci_address!r:.100} must be like 0000:05:00.0, in lower case"
        raise InvalidError(text, field="pci_address")
    return facts


def to_device(device: contract.Device) -> Device:
    """As the author gave it, as far as it was kept."""
    mounts = device.addresses
    return Device(
        device.id,
        nodes=tuple(path for path in device.paths if path not in mounts),
        mounts=mounts,
        attributes=dict(device.attributes),
        versions=dict(device.versions),
        capacity={name: str(one.value) for name, one in device.capacity.items()},
        shares=device.shares,
        numa_node=device.numa_node,
        pci_address=next(
            (part.removeprefix(_PCI) for part in device.hardware if part.startswith(_PCI)),
            "",
        ),
        problem=device.reason if device.health is not Health.HEALTHY else "",
    )


def to_edits(edits: Edits) -> ContainerEdits:
    """InvalidError where it contradicts itself, or a path is not absolute."""
    if not isinstance(edits, Edits):
        raise InvalidError(f"prepare returned {edits!r}, which is not dray.sdk.Edits", field="prepare")
    for name, value in edits.env.items():
        if not name or "=" in name or "\0" in name + value:
            text = f"variable {name!r} must have a name without '=', and no NUL"
            raise InvalidError(text, field="env")
    nodes = [
        DeviceNode(one.host_path, one.container_path or one.host_path, one.permissions) for one in edits.nodes
    ]
    mounts = [
        Mount(one.host_path, one.container_path or one.host_path, one.read_only) for one in edits.mounts
    ]
    return merge(
        [
            ContainerEdits(env=tuple(edits.env.items())),
            *(ContainerEdits(device_nodes=(node,)) for node in nodes),
            *(ContainerEdits(mounts=(mount,)) for mount in mounts),
        ]
    )


def required(devices: Sequence[contract.Device]) -> tuple[str, ...]:
    """The paths that must be there when they are handed out."""
    return tuple(dict.fromkeys(path for device in devices for path in device.paths))


def _quantity(device: str, name: str, value: str | int) -> Quantity:
    if isinstance(value, int):
        return Quantity.from_int(value)
    try:
        return parse_quantity(value)
    except InvalidError as error:
        raise InvalidError(
            f"device {device} is left out: capacity {name}: {error}", field="capacity"
        ) from error
