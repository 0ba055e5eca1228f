from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from dray.errors import InvalidError
from dray.hardware import change as changes
from dray.hardware.change import (
    BindDriver,
    Change,
    Chmod,
    Chown,
    CreateMdev,
    CreateMigDevice,
    DestroyMigDevice,
    HostChange,
    MakeCapabilityNode,
    Relabel,
    RemoveMdev,
    SetComputeMode,
    SetMigMode,
    SetPersistence,
    SetSriovVfs,
    SetTimeSlice,
    SetUnbindLock,
    SetVgpuProfile,
    UnbindDriver,
)
from tests.cases import read_rows

PAGE = Path(__file__).parents[3] / "docs/reference/host-changes.md"
ADDRESS = "0000:05:00.0"
UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa0001"
SAMPLES: list[HostChange] = [
    CreateMdev("mtty", "mtty-1", UUID),
    RemoveMdev(UUID),
    BindDriver(ADDRESS, "vfio-pci"),
    UnbindDriver(ADDRESS),
    SetVgpuProfile(ADDRESS, 1414),
    SetSriovVfs(ADDRESS, 4),
    Chown("/dev/kvm", 107, 107),
    Chmod("/dev/kvm", 0o660),
    Relabel("/dev/kvm"),
    SetMigMode(ADDRESS, 0, on=True),
    CreateMigDevice(ADDRESS, 0, 19, 4),
    DestroyMigDevice(ADDRESS, 0, 19, 4),
    MakeCapabilityNode(12),
    SetTimeSlice(ADDRESS, 0, "Long"),
    SetComputeMode(ADDRESS, 0),
    SetPersistence(ADDRESS, on=False),
    SetUnbindLock(ADDRESS),
]
KINDS: tuple[type[HostChange], ...] = get_args(Change)


def concrete(kind: type[HostChange]) -> list[type[HostChange]]:
    """Those that nothing is derived from."""
    below = kind.__subclasses__()
    return [leaf for one in below for leaf in concrete(one)] if below else [kind]


def test_the_samples_are_all_there_are() -> None:
    assert tuple(type(sample) for sample in SAMPLES) == KINDS
    assert {kind.__name__ for kind in KINDS} <= set(changes.__all__)
    assert set(concrete(HostChange)) == set(KINDS), "a change is missing in `Change`"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_every_change_survives_json_and_says_what_it_does(sample: HostChange) -> None:
    assert msgspec.json.decode(msgspec.json.encode(sample), type=Change) == sample
    assert sample.device in sample.describe() and "\n" not in sample.describe()
    assert sample.needs and sample.target.startswith("/") and "{" not in sample.target
    assert hash(sample) == hash(sample)
    with pytest.raises(AttributeError):
        sample.address = "x"  # type: ignore[attr-defined]


def test_json_that_is_no_change() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"change":"Format","path":"/dev/sda"}', type=Change)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"change":"RemoveMdev","uuid":"x","y":1}', type=Change)
    with pytest.raises(InvalidError):
        msgspec.json.decode(b'{"change":"RemoveMdev","uuid":"x"}', type=Change)


def table() -> dict[str, list[str]]:
    """The rows of the page's table of changes, by name."""
    return {cells[0].strip("`"): cells[1:] for cells in read_rows(PAGE)}


def test_the_page_lists_exactly_the_changes_there_are() -> None:
    assert list(table()) == [kind.__name__ for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_page_tells_the_truth(kind: type[HostChange]) -> None:
    files, needs, _already, undone_by, when = table()[kind.__name__]
    assert re.findall(r"`([^`]+)`", files) == list(kind.files)
    assert needs == ", ".join(kind.needs)
    assert undone_by.replace("`", "") == kind.undone_by
    assert when


def test_the_rest_of_the_room_only_reads() -> None:
    acts = {
        "write",
        "write_text",
        "write_bytes",
        "chown",
        "chmod",
        "relabel",
        "setxattr",
        "mknod",
        "remove",
        "unlink",
    }
    room = Path(changes.__file__).parents[1]
    reading = [path for path in sorted(room.glob("*.py")) if path.name != "mount_namespace.py"]
    assert reading
    assert [
        f"{path.name}:{node.lineno} {node.func.attr}"
        for path in reading
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in acts
    ] == []
