"""The rooms where a silent fault costs a device, and the tests that watch each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path("src")
SEED = 20261116
SIZE = 200
"""Mutants of a room; a room with fewer has all of its own."""


@dataclass(frozen=True)
class Room:
    """Where the code of a room is, as patterns under `src/dray`, and where its tests are, under `tests`."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]

    def modules(self) -> list[Path]:
        """The files of the room, sorted."""
        found = {path for pattern in self.code for path in (SOURCE / "dray").glob(pattern)}
        return sorted(path for path in found if path.name != "__init__.py")


ROOMS = (
    Room("allocation", ("allocation/**/*.py",), ("allocation",)),
    Room("dra-claims", ("dra/claims/*.py",), ("dra",)),
    Room(
        "inventory-holds",
        ("inventory/hold*.py", "inventory/ledger.py", "inventory/handouts.py"),
        ("inventory",),
    ),
    Room("kubelet-devices", ("kubelet/devices/*.py",), ("kubelet/devices", "kubelet/test_podresources.py")),
    Room("kubelet-claims", ("kubelet/claims/*.py",), ("kubelet/claims", "kubelet/test_podresources.py")),
    Room("scheduler-claims", ("scheduler/claims/*.py",), ("scheduler/claims",)),
    Room("apiserver-access", ("apiserver/access/*.py",), ("apiserver/access", "apiserver/http")),
    Room("apiserver-store", ("apiserver/store/*.py",), ("apiserver/store",)),
)


def rooms(names: list[str]) -> list[Room]:
    """The rooms of these names, all where there is none."""
    known = {room.name: room for room in ROOMS}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SystemExit(f"no such room: {', '.join(unknown)}; rooms are {', '.join(known)}")
    return [known[name] for name in names] if names else list(ROOMS)
