"""Somebody puts links where the agent looks for devices, and swaps them while it looks and changes owners."""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dray.drivers.parcels import QEMU
from dray.errors import Error
from dray.runtime.files import syscalls
from tests.campaign import campaign, seeds
from tests.processes.faults import make_node

STICKS = "kubevirt.io/storage"
OPENED = "dray.internal/opened"
GPUS = "nvidia.com/GPU"
PR = "devices.kubevirt.io/pr-helper"
CONFIG = """
permittedHostDevices:
  pciHostDevices: [{pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}]
  usb: [{resourceName: kubevirt.io/storage, selectors: [{vendor: "46f4", product: "0001"}]}]
persistentReservationConfiguration: {enabled: true}
virtualMachineInstancesPerNode: 1
dray:
  generic:
  - {name: opened, path: /dev/opened, preOpen: true}
  - {name: disk, glob: "/dev/nvme*n1"}
"""
_EXCHANGE = 2
_TOUCHED = 0x1 | 0x2 | 0x4 | 0x20  # read, written, owner or mode changed, opened
_libc = ctypes.CDLL(None, use_errno=True)


class Trap:
    """A name of the host and a link that can take its place in one step. Holds the directory, wherever it is moved to."""

    def __init__(self, victim: Path, target: str) -> None:
        self.is_set = False
        self._names = (victim.name, f".trap-{victim.name}")
        self._directory = os.open(victim.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.symlink(target, self._names[1], dir_fd=self._directory)

    def swap(self) -> None:
        one, other = map(os.fsencode, self._names)
        if _libc.renameat2(self._directory, one, self._directory, other, _EXCHANGE):
            raise OSError(ctypes.get_errno(), "renameat2", self._names[0])
        self.is_set = not self.is_set

    def remove(self) -> None:
        if self.is_set:
            self.swap()
        os.unlink(self._names[1], dir_fd=self._directory)
        os.close(self._directory)


class Sentinels:
    """Files that nobody may touch: outside the host's root, and one inside it that is no device."""

    def __init__(self, folder: Path, inside: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.files = [
            folder / name for name in ("shadow", "002", "003", "pr-helper.sock", "5", "12", "nvme0n1")
        ]
        self.files.append(inside)
        for path in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("secret")
            path.chmod(0o640)
        self._watch = syscalls.inotify_init()
        for path in (*self.files, folder):
            syscalls.inotify_add_watch(self._watch, str(path), _TOUCHED)
        self._before = self._facts()

    def _facts(self) -> list[tuple[int, ...]]:
        found = [path.stat() for path in (*self.files, self.folder)]
        return [
            (one.st_uid, one.st_gid, one.st_mode, one.st_atime_ns, one.st_mtime_ns, one.st_ctime_ns)
            for one in found
        ]

    def check(self) -> None:
        assert self._facts() == self._before
        with suppress(BlockingIOError):
            assert os.read(self._watch, 4096) == b"", "somebody opened, read or changed a file outside"
        os.close(self._watch)


def traps_for(root: Path, sentinels: Sentinels, victims: list[Path], random_: random.Random) -> list[Trap]:
    traps = []
    for victim in victims:
        outside = sentinels.folder
        if not victim.is_dir():
            outside /= victim.name if (outside / victim.name).exists() else "shadow"
        targets = [
            str(outside),
            "../" * 20 + str(outside).lstrip("/"),
            os.path.relpath(outside, victim.parent),
            victim.name,
        ]
        if not victim.is_dir():
            targets.append(f"/{sentinels.files[-1].relative_to(root)}")
        traps.append(Trap(victim, random_.choice(targets)))
    return traps


@contextmanager
def attacking(traps: list[Trap], random_: random.Random) -> Iterator[list[int]]:
    """A thread that swaps nodes, and the directories above them, for links as fast as it can; counts its swaps."""
    over, swaps = threading.Event(), [0]

    def attack() -> None:
        while not over.is_set():
            random_.choice(traps).swap()
            swaps[0] += 1
            time.sleep(random_.choice((0, 0, 0.0002, 0.002)))

    thread = threading.Thread(target=attack, name="attacker")
    thread.start()
    try:
        yield swaps
    finally:
        over.set()
        thread.join()


async def test_links_never_lead_out_of_the_root(tmp_path: Path) -> None:
    node, history = make_node(tmp_path)
    root = node.machine.host.root
    for path in ("dev/opened", "dev/nvme0n1"):
        (root / path).touch()
    sentinels = Sentinels(tmp_path / "outside", root / "etc/shadow")
    sticks = [stick.node for stick in node.machine.sticks]
    victims = [
        *sticks,
        sticks[0].parent,
        sticks[0].parent.parent,
        root / "dev/vfio/5",
        root / "dev/vfio",
        root / "dev/opened",
        root / "dev/nvme0n1",
        root / "var/run/kubevirt/daemons/pr/pr-helper.sock",
        root / "var/run/kubevirt/daemons/pr",
    ]
    healthy = {f"{STICKS}-1-{port}": "Healthy" for port in (1, 2)}
    given = asked = swaps = 0
    async with node.serving(CONFIG) as kubelet:
        await node.wait_list(STICKS, healthy)
        await node.wait(lambda: {PR, OPENED, GPUS} <= history.keys(), "the others")
        for seed in seeds(1, 20):
            random_ = random.Random(seed)
            for stick in sticks:
                os.chown(stick, os.getuid(), os.getgid())
            traps = traps_for(root, sentinels, victims, random_)
            with attacking(traps, random_) as count:
                for _ in range(campaign(12, 100)):
                    for resource, name in (
                        (STICKS, f"{STICKS}-1-1"),
                        (STICKS, f"{STICKS}-1-2"),
                        (OPENED, "opened0"),
                    ):
                        asked += 1
                        with suppress(Error):
                            await kubelet.allocate(resource, name)
                            given += 1
            swaps += count[0]
            for trap in traps:  # the directories above the nodes last: all of them lead outside now
                if not trap.is_set:
                    trap.swap()
            await node.wait_list(STICKS, dict.fromkeys(healthy, "Unhealthy"))
            await node.wait_list(GPUS, {"5": "Unhealthy", "12": "Unhealthy"})
            for trap in traps:
                trap.remove()
            await node.wait_list(STICKS, healthy)
            await node.wait_list(GPUS, {"5": "Healthy", "12": "Healthy"})
        if os.geteuid() == 0:
            await kubelet.allocate(STICKS, f"{STICKS}-1-1")
            assert (sticks[0].stat().st_uid, sticks[0].stat().st_gid) == QEMU  # it does change what it should
    sentinels.check()
    print(f"{swaps} swaps, {asked} asked for, {given} given")
    assert swaps > asked > 10
