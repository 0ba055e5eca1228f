"""The agent on a machine whose disks are full, and whose sysfs holds nonsense."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dray.inventory.looking import Pace
from dray.processes.agent import run_agent
from dray.runtime.clock import Clock
from dray.runtime.tasks import running
from dray.testing.host import MdevType
from tests.campaign import campaign, seeded
from tests.processes.conftest import Node
from tests.processes.fast_clock import PausesKept
from tests.processes.faults import FastClock, make_node

BARE = "virtualMachineInstancesPerNode: 2\n"
KVM = "devices.kubevirt.io/kvm"
STICKS = "kubevirt.io/storage"
GPUS = "nvidia.com/GPU"
MDEVS = "nvidia.com/GRID_T4-1Q"
HOST = """
permittedHostDevices:
  pciHostDevices: [{pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}]
  mediatedDevices: [{mdevNameSelector: "GRID T4-1Q", resourceName: nvidia.com/GRID_T4-1Q}]
  usb: [{resourceName: kubevirt.io/storage, selectors: [{vendor: "46f4", product: "0001"}]}]
"""
SIM = "dray: {sim: {devices: [{name: gpu, resourceName: x.io/sim}]}}\n"


class Disk:
    """A directory that can be full: a small tmpfs where we may mount one, else a place where nothing can be written."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._away = place.with_name(f"{place.name}.away")
        place.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=40", "tmpfs", str(place)]
        try:
            self.is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            self.is_mounted = False

    def fill(self) -> None:
        if not self.is_mounted:
            self._place.rename(self._away)
            self._place.symlink_to("/proc")
            return
        with pytest.raises(OSError, match="No space"):
            (self._place / "ballast").write_bytes(bytes(1 << 20))
        with pytest.raises(OSError, match="No space"):
            for number in range(100):
                (self._place / f"ballast{number}").touch()

    def free(self) -> None:
        if not self.is_mounted:
            self._place.unlink()
            self._away.rename(self._place)
            return
        for path in self._place.glob("ballast*"):
            path.unlink()

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self._place)], check=True)


@contextmanager
def disk_at(place: Path) -> Iterator[Disk]:
    disk = Disk(place)
    try:
        yield disk
    finally:
        disk.close()


@asynccontextmanager
async def agent(node: Node, config: str, clock: Clock | None = None) -> AsyncIterator[None]:
    node.configure(config)
    async with running(run_agent(node.options, clock or FastClock(10)), name="agent"):
        yield


def _told(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in f"{record.message} {record.__dict__.get('fields')}" for record in caplog.records)


async def test_a_full_state_directory_stops_only_what_must_be_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node, history = make_node(tmp_path)
    host = node.machine.host
    card = host.pci("0000:07:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=4)
    parent = host.mdev_parent(card, {"nvidia-300": MdevType(2, "GRID T4-1Q")})
    config = HOST + "mediatedDevicesConfiguration: {mediatedDeviceTypes: [nvidia-300]}\n"
    with disk_at(node.options.state_dir) as disk, host.active():
        async with node.kubelet.running(), agent(node, HOST):
            await node.wait_list(STICKS, {f"{STICKS}-1-{port}": "Healthy" for port in (1, 2)})
            disk.fill()
            node.configure(config)
            for _ in range(2):
                node.machine.sticks[0].unplug()
                await node.wait_list(STICKS, {f"{STICKS}-1-2": "Healthy"})
                node.machine.sticks[0].replug()
                await node.wait_list(STICKS, {f"{STICKS}-1-{port}": "Healthy" for port in (1, 2)})
            assert parent.available("nvidia-300") == 2  # made without a record it would be nobody's for ever
            assert set(dict(history[MDEVS])) == {"71", "72"}
            assert _told(caplog, "devices are not remembered") == 1
            disk.free()
            await node.wait(lambda: parent.available("nvidia-300") == 0, "the mediated devices", 30)
            await node.wait((node.options.state_dir / "devices").exists, "the devices to be remembered")
            assert node.kubelet.registered.count(STICKS) == 1


async def test_a_full_plugin_directory_is_waited_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node, history = make_node(tmp_path)
    with disk_at(node.kubelet.directory) as disk:
        async with node.kubelet.running(), agent(node, BARE):
            await node.wait(lambda: KVM in history, "kvm")
            disk.fill()
            node.configure(BARE + SIM)
            if disk.is_mounted:
                await node.wait(lambda: bool(_told(caplog, "will try again")), "a try")
                await node.kubelet.allocate(KVM, "kvm0")
                assert len(history.messages[KVM]) == 1
            assert "x.io/sim" not in history
            disk.free()
            if disk.is_mounted:
                await node.wait(lambda: bool(history.get("x.io/sim")), "the new resource")
                assert node.kubelet.registered.count(KVM) == 1
        assert not [path for path in node.kubelet.directory.iterdir() if path.is_socket()]


async def test_a_directory_full_from_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node, history = make_node(tmp_path)
    with disk_at(node.kubelet.directory) as disk, disk_at(tmp_path / "var") as var:
        async with node.kubelet.running():
            if disk.is_mounted:
                disk.fill()
            if var.is_mounted:
                var.fill()
            node.options = replace(node.options, state_dir=tmp_path / "var" / "state")
            async with agent(node, BARE):
                if disk.is_mounted:
                    await node.wait(lambda: bool(_told(caplog, "will try again")), "a try")
                    assert not history
                    disk.free()
                await node.wait(lambda: KVM in history, "kvm")


class Vandal:
    """Spoils one entry of a device's sysfs directory at a time, and puts it back."""

    def __init__(self, root: Path, device: str) -> None:
        self._root = root
        link = root / device.lstrip("/")
        place = link.resolve()
        self._entries = sorted(path for path in place.iterdir() if path.is_symlink() or path.is_file())
        self._entries.append(link)

    def spoil(self, random_: random.Random) -> tuple[str, Callable[[], None]]:
        path = random_.choice(self._entries)
        target = os.readlink(path) if path.is_symlink() else ""
        content = b"" if target or not os.access(path, os.R_OK) else path.read_bytes()
        mode = path.lstat().st_mode & 0o777

        def restore() -> None:
            _drop(path)
            if target:
                path.symlink_to(target)
            else:
                path.write_bytes(content)
                path.chmod(mode)

        kind = random_.choice(
            ("gone", "garbage", "huge", "directory", "fifo", "dangling", "loop", "outside", "denied")
        )
        _drop(path)
        match kind:
            case "garbage":
                path.write_bytes(random_.randbytes(random_.choice((0, 1, 40, 5000))))
            case "huge":
                path.write_bytes(b"0" * (3 << 20))
            case "directory":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "dangling":
                path.symlink_to("../gone")
            case "loop":
                path.symlink_to(path.name)
            case "outside":
                path.symlink_to("/proc/self/environ")
            case "denied":
                restore()
                if not path.is_symlink():
                    path.chmod(0)
        return f"{kind} {path.relative_to(self._root)}", restore


def _drop(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


VICTIMS = {
    f"{GPUS} 5": "/sys/bus/pci/devices/0000:05:00.0",
    f"{STICKS} {STICKS}-1-1": "/sys/bus/usb/devices/1-1",
    f"{MDEVS} 71": "/sys/bus/mdev/devices/83b8f4f2-509f-382f-3c1e-e6bfe0fa0001",
}
GOOD = {
    GPUS: {"5": "Healthy", "12": "Healthy"},
    STICKS: {f"{STICKS}-1-{port}": "Healthy" for port in (1, 2)},
    MDEVS: {"71": "Healthy", "72": "Healthy"},
}


def _is_spared(resource: str, victim: str, found: list[tuple[str, str]]) -> bool:
    """Whether all but the victim are as before. Without its group the victim may go by another name, and is not healthy."""
    others = {name: health for name, health in GOOD[resource].items() if name != victim}
    healthy = {name for name, health in found if health == "Healthy"}
    return others.items() <= dict(found).items() and healthy <= GOOD[resource].keys()


async def test_nonsense_in_sysfs_hides_one_device_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node, history = make_node(tmp_path)
    random_, clock = seeded(21), PausesKept(20)
    nudge = node.machine.host.root / "dev/vfio/nudge"
    vandals = {name: Vandal(node.machine.host.root, path) for name, path in VICTIMS.items()}

    async def look() -> None:
        """Sysfs tells nothing of itself: an event in /dev makes the agent look until it rests again."""
        before = len(clock.asked)
        _drop(nudge) if nudge.exists() else nudge.touch()
        await node.wait(lambda: Pace().rest in clock.asked[before:], "a rest")

    off = "mediatedDevicesConfiguration: {enabled: false}\n"
    async with node.kubelet.running(), agent(node, HOST + off, clock):
        for resource, wanted in GOOD.items():
            await node.wait_list(resource, wanted)
        await node.wait(lambda: Pace().rest in clock.asked, "the first rest")
        told = {resource: len(history.messages[resource]) for resource in GOOD}
        for _ in range(campaign(4, 300)):
            name = random_.choice(sorted(vandals))
            hurt, _, victim = name.partition(" ")
            caplog.clear()
            what, restore = vandals[name].spoil(random_)
            for _ in range(2):
                await look()
            problems = Counter(
                str(one.__dict__["fields"]) for one in caplog.records if one.message == "noticed"
            )
            assert set(problems.values()) <= {1}, (what, problems)
            restore()
            await look()
            await node.wait_list(hurt, GOOD[hurt])
            for resource in GOOD:
                new = history.messages[resource][told[resource] :]
                told[resource] = len(history.messages[resource])
                assert resource == hurt or not new, (what, resource, new)
                assert all(_is_spared(hurt, victim, found) for found in new), (what, new)
        assert sorted(set(node.kubelet.registered)) == sorted(node.kubelet.registered)
