"""Random changes to the device nodes of a machine of files, and what they should mean."""

from __future__ import annotations

import os
import random
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from tests.processes.conftest import Node
from tests.processes.faults import kind_of, place_of, suppressed

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


class Tree:
    """Random changes below a root, and what the kubelet should have for what is there."""

    def __init__(self, node: Node, seed: int, *, modes: bool = False) -> None:
        self.modes = modes
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
        kind = self.random.randrange(7)
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
                "x" * 300,  # longer than a name can be
            )
            place.symlink_to(targets[kind - 2])

    def _folder(self) -> None:
        """A whole directory: renamed away or back, removed, or a link or a file in its place."""
        folder = self.random.choice(FOLDERS)
        place, away = self.at(folder), self.at(folder + ".away")
        kind = self.random.randrange(9 if self.modes else 6)
        if kind > 5:
            place.chmod(self.random.choice((0, 0o444, 0o111, 0o755)))
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

    def nudge(self) -> None:
        """An event that makes the agent look, and changes nothing."""
        place = self.at("/dev/nudge")
        place.unlink() if place.exists() else place.touch()

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
        listed = self._names("/dev/vfio")
        found = {
            resource: {one: health(f"/dev/vfio/{one}") if one in listed else "Unhealthy" for one in names}
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
    if not place.is_symlink() and place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
