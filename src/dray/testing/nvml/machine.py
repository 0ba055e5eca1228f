"""A machine with the GPUs of a recording: what NVML says, and the files of the kernel that go with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from dray.errors import NotFoundError
from dray.hardware.nvml.capabilities import (
    CAPABILITIES,
    NODES,
    compute_instance_file,
    gpu_instance_file,
)
from dray.hardware.nvml.recorded import Recorded
from dray.hardware.nvml.recorded_cards import Card
from dray.hardware.parse import pci_address
from dray.testing.host import Host

RECORDINGS: Final = Path(__file__).parent / "recordings"
NVIDIA_MAJOR: Final = 195
UVM_MAJOR: Final = 238
CAPS_MAJOR: Final = 241
_FIRST_CAPABILITY: Final = 3
_INSTANCES: Final = 15
_COMPUTE: Final = 8


def recording(name: str) -> Recorded:
    """One of the recordings that come with this package: `h200`, `a100-mig`, `eight-h100`."""
    path = RECORDINGS / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in RECORDINGS.glob("*.json")))
        raise NotFoundError(
            f"there is no recording {name!r}: take one of {known}", kind="recording", name=name
        )
    return Recorded.load(path)


class GpuMachine:
    """The cards of a recording on a host: nodes, sysfs, /proc and libraries. MIG devices that come and go change them too."""

    def __init__(self, host: Host, cards: Recorded) -> None:
        self.host = host
        self.cards = cards
        version = cards.system["driverVersion"]
        host.module("nvidia")
        host.file(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}\n",
        )
        for path, minor in (("/dev/nvidiactl", 255), ("/dev/nvidia-modeset", 254)):
            host.char_device(path, NVIDIA_MAJOR, minor, mode=0o666)
        for path, minor in (("/dev/nvidia-uvm", 0), ("/dev/nvidia-uvm-tools", 1)):
            host.char_device(path, UVM_MAJOR, minor, mode=0o666)
        host.file(f"{CAPABILITIES}/mig/config", _access(1))
        host.file(f"{CAPABILITIES}/mig/monitor", _access(2))
        for index, card in enumerate(cards.cards):
            self._add(index, card)
        cards.changed = self.follow
        self._files: set[str] = set()
        self.follow()

    def follow(self) -> None:
        """Make the kernel's files about MIG devices what the cards say."""
        wanted = {path: text for card in self.cards.cards for path, text in _capabilities(card)}
        for path in sorted(self._files - wanted.keys()):
            self.host.tree.path(self.host.tree.name(path)).unlink(missing_ok=True)
        for path, minor in sorted(wanted.items()):
            if path not in self._files:
                self.host.file(path, _access(minor))
                self._ensure_node(minor)
        self._files = set(wanted)

    def _ensure_node(self, minor: int) -> None:
        path = f"{NODES}/nvidia-cap{minor}"
        if not self.host.tree.path(self.host.tree.name(path)).exists():
            self.host.char_device(path, CAPS_MAJOR, minor, mode=0o444)

    def _add(self, index: int, card: Card) -> None:
        answers = card.answers
        address = pci_address(answers["pci"]["busId"]) or ""
        sysfs: dict[str, Any] = self.cards.recording["host"]["sysfs"].get(answers["pci"]["busId"], {})
        self.host.pci(
            address,
            driver="nvidia",
            vendor="10de",
            device=f"{answers['pci']['pciDeviceId'] >> 16:04x}",
            class_code="030200",
            numa_node=int(sysfs.get("numa_node", -1)),
            iommu_group=10 + index if sysfs.get("iommu") else None,
        )
        self.host.char_device(f"/dev/nvidia{answers['minor']}", NVIDIA_MAJOR, answers["minor"], mode=0o666)
        text = f"Model: \t\t {answers['name']}\nGPU UUID: \t {answers['uuid']}\nDevice Minor: \t {answers['minor']}\n"
        self.host.file(f"/proc/driver/nvidia/gpus/{address}/information", text)


def _capabilities(card: Card) -> list[tuple[str, int]]:
    """Files and minors of a card's instances, as the kernel module numbers them."""
    minor = int(card.answers["minor"])
    found = []
    for instance in card.instances:
        first = _FIRST_CAPABILITY + (minor * _INSTANCES + instance.gpu_instance) * (_COMPUTE + 1)
        found.append((gpu_instance_file(minor, instance.gpu_instance), first))
        if instance.compute_instance is not None:
            path = compute_instance_file(minor, instance.gpu_instance, instance.compute_instance)
            found.append((path, first + 1 + instance.compute_instance))
    return found


def _access(minor: int) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
