"""The agent while device nodes come, go, and are renamed or replaced at random."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.campaign import campaign
from tests.processes.conftest import Node
from tests.processes.faults import History, kind_of, make_node, place_of, suppressed

CONFIG = """
permittedHostDevices:
  pciHostDevices:
  - {pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}
  - {pciVendorSelector: "8086:10d3", resourceName: intel.com/nic}
  mediatedDevices:
  - {mdevNameSelector: "GRID T4-1Q", resourceName: nvidia.com/GRID_T4-1Q}
  usb:
  - resourceName: kubevirt.io/storage
    selectors: [{vendor: "46f4", product: "0001"}]
  - resourceName: kubevirt.io/pair
    selectors: [{vendor: "1050", product: "0407"}, {vendor: "0951", product: "1666"}]
mediatedDevicesConfiguration: {enabled: false}
virtualMachineInstancesPerNode: 1
persistentReservationConfiguration: {enabled: true}
developerConfiguration: {featureGates: [WorkloadEncryptionTDX, IOMMUFD]}
dray:
  generic:
  - {name: disk, glob: "/dev/nvme*n1"}
  - {name: deep, glob: "/dev/cards/*/c*"}
  - {name: twin, path: /dev/twin}
  sim:
    devices: [{name: gpu, shape: gpu, count: 2, resourceName: x.io/sim}]
"""
UNTOUCHED = ("devices.kubevirt.io/kvm", "devices.kubevirt.io/tdx", "x.io/sim")
SOCKET = "/var/run/kubevirt/daemons/pr/pr-helper.sock"
FOLDERS = (
    "/dev/vfio",
    "/dev/bus",
    "/dev/bus/usb",
    "/dev/bus/usb/001",
    "/dev/net",
    "/dev/cards",
    "/dev/cards/a",
    "/var/run/kubevirt/daemons/pr",
    "/var/run/kubevirt",
)
LATE = 5.0
"""Seconds. Without an event a look is made only once a minute."""


class Tree:
    """Random changes below a root, and what the kubelet should have for what is there."""

    def __init__(self, node: Node, seed: int) -> None:
        self.root = node.machine.host.root
        self.random = random.Random(seed)
        self.usb = {
            "kubevirt.io/storage-1-1": [self._path(node.machine.sticks[0].node)],
            "kubevirt.io/storage-1-2": [self._path(node.machine.sticks[1].node)],
        }
        pair = sorted((self.root / "dev/bus/usb/002").iterdir())[-2:]
        self.usb["kubevirt.io/pair-2-1+2-2"] = [self._path(path) for path in pair]
        self.nodes = [
            "/dev/net/tun",
            "/dev/iommu",
            "/dev/twin",
            SOCKET,
            *(f"/dev/nvme{number}n1" for number in range(4)),
            *(f"/dev/cards/{name}" for name in ("a/c0", "a/c1", "b/c0")),
            *(f"/dev/vfio/{group}" for group in ("5", "12", "32", "71", "72", "vfio")),
            *(path for paths in self.usb.values() for path in paths),
        ]
        self.outside = self.root.parent / "secret"
        self.outside.write_text("outside")

    def _path(self, place: Path) -> str:
        return f"/{place.relative_to(self.root)}"

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def change(self) -> None:
        """One event, or two: a name that was taken is freed first."""
        choose = self.random.choices
        (act,) = choose(
            (self._create, self._delete, self._rename, self._swap, self._replace, self._folder),
            (30, 20, 12, 8, 20, 10),
        )
        with suppressed():
            act()

    def mend(self) -> None:
        """All folders and nodes are there again, as plain stand-ins."""
        for folder in sorted(FOLDERS, key=len):
            with suppressed():
                self.at(folder).chmod(0o755)
            if not self.at(folder).is_dir() or self.at(folder).is_symlink():
                _remove(self.at(folder))
                self.at(folder).mkdir(parents=True)
        for path in self.nodes:
            if self.at(path).is_symlink() or not self.at(path).is_file():
                _remove(self.at(path))
                self._put(path)

    def _pick(self) -> str:
        return self.random.choice(self.nodes)

    def _put(self, path: str) -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).touch()

    def _create(self) -> None:
        path = self._pick()
        if self.random.random() < 0.7:
            self.at(path).touch()
        else:
            self._put(path)

    def _delete(self) -> None:
        _remove(self.at(self._pick()))

    def _rename(self) -> None:
        """Away, or back."""
        path = self._pick()
        ends = [self.at(path), self.at(path + ".away")]
        self.random.shuffle(ends)
        ends[0].rename(ends[1])

    def _swap(self) -> None:
        one, other = self.at(self._pick()), self.at(self._pick())
        between = one.with_name("between")
        one.rename(between)
        other.rename(one)
        between.rename(other)

    def _replace(self) -> None:
        place = self.at(self._pick())
        _remove(place)
        kind = self.random.randrange(6)
        if kind == 0:
            place.mkdir()
        elif kind == 1:
            os.mkfifo(place)
        else:
            targets = (
                place.name,
                str(self.outside),
                self._pick(),
                os.path.relpath(self.at(self._pick()), place.parent),
            )
            place.symlink_to(targets[kind - 2])

    def _folder(self) -> None:
        """A whole directory: renamed away or back, removed, or a link or a file in its place."""
        folder = self.random.choice(FOLDERS)
        place, away = self.at(folder), self.at(folder + ".away")
        kind = self.random.randrange(8)
        if kind > 5:
            place.chmod(0o755 if place.stat().st_mode & 0o777 != 0o755 else self.random.choice((0, 0o444, 0o111)))
        elif kind < 3 and away.exists() and place.exists():
            place.rename(place.with_name("between"))
            away.rename(place)
            place.with_name("between").rename(away)
        elif kind < 3:
            place.rename(away) if place.exists() else away.rename(place)
        elif kind == 3:
            place.rename(away)
            place.symlink_to(away.name)
        elif kind == 4:
            _remove(place)
            place.symlink_to(folder + ".away")
        else:
            _remove(place)
            place.touch()

    def wanted(self) -> dict[str, dict[str, str]]:
        """Resource to id to health: what a look at the tree says now."""
        is_node = {path: kind_of(self.root, path) == "file" for path in self.nodes}

        def health(*paths: str) -> str:
            return "Healthy" if all(is_node[path] for path in paths) else "Unhealthy"

        groups = {
            "nvidia.com/GPU": ("5", "12"),
            "intel.com/nic": ("32",),
            "nvidia.com/GRID_T4-1Q": ("71", "72"),
        }
        found = {
            resource: {group: health(f"/dev/vfio/{group}") for group in names}
            for resource, names in groups.items()
        }
        for name, paths in self.usb.items():
            found.setdefault(name.split("-")[0], {})[name] = health(*paths)
        found["dray.internal/disk"] = self._matching("disk", "/dev", "nvme*n1")
        found["dray.internal/deep"] = {
            name: state
            for folder in self._names("/dev/cards")
            for name, state in self._matching("deep", f"/dev/cards/{folder}", "c*", "/dev/cards").items()
        }
        found["dray.internal/twin"] = {"twin0": health("/dev/twin")}
        found["devices.kubevirt.io/tun"] = {"tun0": health("/dev/net/tun")}
        found["devices.kubevirt.io/iommufd"] = {"iommufd0": health("/dev/iommu")}
        is_there = kind_of(self.root, SOCKET) != "nothing"
        found["devices.kubevirt.io/pr-helper"] = {"pr-helper0": "Healthy" if is_there else "Unhealthy"}
        return found

    def _names(self, folder: str) -> list[str]:
        place = place_of(self.root, folder)
        with suppressed():
            return [] if place is None else sorted(os.listdir(place))
        return []

    def _matching(self, name: str, folder: str, pattern: str, fixed: str = "") -> dict[str, str]:
        found = {}
        for entry in self._names(folder):
            kind = kind_of(self.root, f"{folder}/{entry}")
            if fnmatchcase(entry, pattern) and kind != "nothing":
                rest = f"{folder}/{entry}".removeprefix(fixed or folder).strip("/")
                dash = "-" if rest[-1].isdigit() else ""
                found[f"{name}:{rest}{dash}0"] = "Healthy" if kind == "file" else "Unhealthy"
        return found


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


class Watchman:
    """Says which devices the kubelet calls healthy though their nodes have been away for `LATE` seconds."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._bad_since: dict[tuple[str, str], float] = {}
        self.slowest = 0.0

    def look(self, wanted: dict[str, dict[str, str]]) -> None:
        now = time.monotonic()
        listed = {
            (resource, name)
            for resource in wanted
            for name, health in self._history.get(resource, [])
            if health == "Healthy"
        }
        bad = {one for one in listed if wanted[one[0]].get(one[1]) != "Healthy"}
        self._bad_since = {one: self._bad_since.get(one, now) for one in bad}
        for one, since in self._bad_since.items():
            self.slowest = max(self.slowest, now - since)
            if now - since > LATE:
                pytest.fail(f"{one} is listed as healthy {now - since:.1f} s after its node went")


async def _equal(history: History, wanted: Callable[[], dict[str, dict[str, str]]]) -> float:
    """Seconds until the kubelet has what is there."""
    began = time.monotonic()
    while True:
        found, right = {resource: dict(history.get(resource, [])) for resource in wanted()}, wanted()
        if found == right:
            return time.monotonic() - began
        if time.monotonic() - began > 2 * LATE:
            differs = {key: (found[key], right[key]) for key in right if found[key] != right[key]}
            pytest.fail(f"the kubelet has, and should have: {differs}")
        await asyncio.sleep(0.02)


async def test_random_events_on_nodes_end_in_the_right_state(tmp_path: Path) -> None:
    node, history = make_node(tmp_path)
    tree = Tree(node, seed=4)
    tree.mend()
    events, waves = campaign(300, 10_000), campaign(3, 50)
    watchman = Watchman(history)
    waits = []
    with common_rights():
     async with node.serving(CONFIG) as kubelet:
        await _equal(history, tree.wanted)
        await node.wait(lambda: all(history.get(resource) for resource in UNTOUCHED), "the untouched ones")
        registered, told = (
            sorted(kubelet.registered),
            {name: list(history.messages[name]) for name in UNTOUCHED},
        )
        for _ in range(waves):
            for _ in range(events // waves):
                tree.change()
                watchman.look(tree.wanted())
                await asyncio.sleep(tree.random.choice((0, 0, 0, 0.001, 0.01)))
            waits.append(await _equal(history, tree.wanted))
        tree.mend()
        waits.append(await _equal(history, tree.wanted))
        assert sorted(kubelet.registered) == registered
        assert {name: history.messages[name] for name in UNTOUCHED} == told
    assert tree.outside.read_text() == "outside"
    print(f"slowest to turn unhealthy {watchman.slowest:.3f} s; until right {sorted(waits)}")
