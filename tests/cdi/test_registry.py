from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.cdi.registry import DIRECTORIES, read_file, read_registry
from dray.errors import InvalidError, NotFoundError


def text(*names: str, kind: str = "example.com/gpu", env: str = "A=1") -> str:
    devices = ", ".join(f"{{name: {name}, containerEdits: {{env: [{env}]}}}}" for name in names)
    return f"cdiVersion: 0.6.0\nkind: {kind}\ndevices: [{devices}]\n"


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "etc", tmp_path / "run"]
    for directory in made:
        directory.mkdir()
    return made


def test_the_usual_directories() -> None:
    assert list(map(str, DIRECTORIES)) == ["/etc/cdi", "/var/run/cdi"]


def test_devices_of_all_directories(directories: list[Path], tmp_path: Path) -> None:
    (directories[0] / "a.yaml").write_text(text("a", "b"))
    (directories[1] / "c.json").write_text(text("c", kind="other/nic"))
    (directories[1] / "c.yaml.tmp").write_text("{")
    (directories[1] / "readme.txt").write_text("{")
    (directories[1] / "d.yaml").mkdir()
    registry = read_registry([*directories, tmp_path / "none-such"])
    assert list(registry.devices) == ["example.com/gpu=a", "example.com/gpu=b", "other/nic=c"]
    assert (registry.broken, registry.conflicts) == ((), {})


def test_later_directories_override(directories: list[Path]) -> None:
    for number, directory in enumerate(directories):
        (directory / "a.yaml").write_text(text("a", env=f"A={number}"))
    registry = read_registry(directories)
    assert registry.devices["example.com/gpu=a"].path == directories[1] / "a.yaml"
    assert registry.resolve(["example.com/gpu=a"])[0].device.container_edits.env == ("A=1",)


def test_a_conflict_makes_a_device_unusable_with_a_reason(directories: list[Path]) -> None:
    first, second = directories[1] / "a.yaml", directories[1] / "b.yaml"
    (directories[0] / "a.yaml").write_text(text("a"))
    first.write_text(text("a", "b"))
    second.write_text(text("a", "c"))
    registry = read_registry(directories)
    assert sorted(registry.devices) == ["example.com/gpu=b", "example.com/gpu=c"]
    assert registry.conflicts == {"example.com/gpu=a": (first, second)}
    with pytest.raises(InvalidError) as refused:
        registry.resolve(["example.com/gpu=b", "example.com/gpu=a"])
    expected = f"defined by {first} and by {second}: remove one"
    assert str(refused.value) == f"unresolvable CDI devices example.com/gpu=a: {expected}"


def test_a_conflict_below_does_not_count_where_a_later_directory_decides(directories: list[Path]) -> None:
    (directories[0] / "a.yaml").write_text(text("a"))
    (directories[0] / "b.yaml").write_text(text("a"))
    (directories[1] / "c.yaml").write_text(text("a"))
    registry = read_registry(directories)
    assert registry.devices["example.com/gpu=a"].path == directories[1] / "c.yaml"


def test_broken_files_hide_only_themselves(directories: list[Path]) -> None:
    (directories[0] / "good.yaml").write_text(text("a"))
    (directories[0] / "bad.yaml").write_text(text("b", env="nonsense"))
    (directories[0] / "worse.json").write_text("{")
    (directories[0] / "dangling.json").symlink_to("nowhere")
    (directories[0] / "folder.json").symlink_to(directories[1])
    os.mkfifo(directories[0] / "pipe.yaml")
    registry = read_registry(directories)
    assert list(registry.devices) == ["example.com/gpu=a"]
    assert [broken.path.name for broken in registry.broken] == [
        "bad.yaml",
        "dangling.json",
        "folder.json",
        "pipe.yaml",
        "worse.json",
    ]
    assert "its file is broken: " in registry.reason("example.com/gpu=b")
    assert "must be NAME=VALUE" in registry.reason("example.com/gpu=b")


def test_a_directory_that_is_none_hides_no_other(directories: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (directories[1] / "a.yaml").write_text(text("a"))
    registry = read_registry([tmp_path / "file", directories[1]])
    assert list(registry.devices) == ["example.com/gpu=a"]
    assert [str(broken.error) for broken in registry.broken] == [
        f"cannot read '{tmp_path}/file': a part of the path is not a directory"
    ]


def test_all_unknown_devices_are_named_at_once(directories: list[Path]) -> None:
    (directories[0] / "a.yaml").write_text(text("a"))
    registry = read_registry(directories)
    with pytest.raises(InvalidError) as refused:
        registry.resolve(["example.com/gpu=a", "example.com/gpu=x", "other/nic=0", "gpu", "other/nic=0"])
    assert refused.value.causes == (
        "example.com/gpu=x: no such device of this kind",
        "other/nic=0: no file has a usable device of kind other/nic",
        "gpu: not a CDI device: say vendor/class=device",
    )
    assert str(refused.value).startswith("unresolvable CDI devices example.com/gpu=x, other/nic=0, gpu: ")


def test_devices_come_in_the_order_asked_for_and_once(directories: list[Path]) -> None:
    (directories[0] / "a.yaml").write_text(text("a", "b"))
    found = read_registry(directories).resolve(
        ["example.com/gpu=b", "example.com/gpu=a", "example.com/gpu=b"]
    )
    assert [one.name for one in found] == ["example.com/gpu=b", "example.com/gpu=a"]


def test_files_that_are_too_large_or_away(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with path.open("wb") as opened:
        opened.truncate(17 << 20)
    assert "larger than 16 MiB" in str(read_registry([tmp_path]).broken[0].error)
    with pytest.raises(NotFoundError, match="it does not exist"):
        read_file(tmp_path / "none-such")
