"""Names that others rely on: environment variables that virt-launcher reads, ids in the kubelet's checkpoint, sockets.

They are KubeVirt's, but for those that would collide, grow too long or be random there (docs/reference/kubevirt.md).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection

from dray.errors import InvalidError

KUBEVIRT_PREFIX = "devices.kubevirt.io/"
PCI_PREFIX = "PCI_RESOURCE"
MDEV_PREFIX = "MDEV_PCI_RESOURCE"
USB_PREFIX = "USB_RESOURCE"

ID_CHARACTERS = 63
GPU_SLICES = 8
"""Into how many pieces of memory a GPU is divided at most; those with fewer simply have fewer."""
SOCKET_BYTES = 107  # sun_path has 108, one for the NUL
SHARES = 1000
"""KubeVirt's default for how many containers share a device (`virtualMachineInstancesPerNode`)."""

LABEL_CHARACTERS = 63
ATTRIBUTE_BYTES = 64

_SHORT_NAMED = ("generic", "iommufd", "socket")
_DIGEST = 10


def env_name(prefix: str, resource: str) -> str:
    """`nvidia.com/GRID_T4-1Q` with MDEV_PCI_RESOURCE: `MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q`."""
    return f"{prefix}_{resource}".upper().replace("/", "_").replace(".", "_")


def socket_name(kind: str, resource: str, *, directory: str, taken: Collection[str] = ()) -> str:
    """The plugin's socket in `directory`: `kubevirt-nvidia.com-GPU.sock`, `kubevirt-kvm.sock`.

    `taken` are the names of other resources. A name that is among them, or too long for a socket there, ends in a digest
    of the resource instead.
    """
    text = resource.removeprefix(KUBEVIRT_PREFIX) if kind in _SHORT_NAMED else resource
    plain = f"kubevirt-{text.replace('/', '-')}"
    room = SOCKET_BYTES - len(f"{directory.rstrip('/')}/.sock".encode())
    name = f"{fitting(plain, room)}.sock"
    if name not in taken:
        return name
    return f"{_with_digest(plain, f'{kind} {resource}', room)}.sock"


def share_id(device_id: str, index: int) -> str:
    """`kvm3`. An id that ends in a digit gets a dash, so that no two shares of two devices have one name."""
    dash = "-" if device_id[-1:].isdigit() or device_id.endswith("-") else ""
    return f"{device_id}{dash}{index}"


def usb_id(resource: str, ports: Collection[str]) -> str:
    """`kubevirt.io/storage-1-2.3`: the ports stay when a device is plugged again."""
    return fitting(f"{resource}-{'+'.join(ports)}", ID_CHARACTERS)


def slice_name(*parts: str) -> str:
    """A name in a ResourceSlice: `kvm`, `disk--nvme0n1`. A DNS label, made of what tells a device from others of its kind.

    Two lists of parts never make one name: where a part is no plain label, or all are too long, a digest ends it.
    """
    plain = [re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts]
    name = "--".join(filter(None, plain))
    if plain == list(parts) and all(plain) and len(name) <= LABEL_CHARACTERS:
        return name
    digest = hashlib.sha256(ascii(parts).encode()).hexdigest()[:_DIGEST]
    return f"{name[: LABEL_CHARACTERS - _DIGEST - 1]}-{digest}".lstrip("-")


def attribute_text(text: str) -> str:
    """A description as an attribute of a ResourceSlice, which has room for 64 bytes: the rest is cut off."""
    return text.encode(errors="replace")[:ATTRIBUTE_BYTES].decode(errors="ignore").rstrip()


def check_distinct(names: Collection[str]) -> None:
    """InvalidError where two devices of one config have the same name: ids come from it."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidError(f"{twice[0]!r} is the name of two devices: give each its own", field="name")


def fitting(text: str, room: int) -> str:
    """The text, or where it is longer than `room` bytes its beginning and a digest of the whole."""
    return text if len(text.encode()) <= room else _with_digest(text, text, room)


def _with_digest(text: str, whole: str, room: int) -> str:
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    start = text.encode()[: max(0, room - _DIGEST - 1)].decode(errors="ignore")
    return f"{start}-{digest}"


def slice_part(bus_id: str, index: int) -> str:
    """The name of one memory slice, for `Device.hardware`."""
    return f"pci:{bus_id}/slice-{index}"


def card_parts(bus_id: str, slices: int = GPU_SLICES) -> tuple[str, ...]:
    """What a whole GPU is made of, whatever kind offers it: the function itself, and all slices, so that it has one in common with every part."""
    return (f"pci:{bus_id}", *(slice_part(bus_id, index) for index in range(max(slices, GPU_SLICES))))
