from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import Error, InvalidError
from dray.processes.agent_config import Served
from dray.processes.config_file import ConfigFile, parse_labels
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running

MDEVS = """
mediatedDevicesConfiguration:
  mediatedDeviceTypes: [nvidia-1]
  nodeMediatedDeviceTypes:
  - {nodeSelector: {gpu: a}, mediatedDeviceTypes: [nvidia-2]}
  - {nodeSelector: {gpu: b}, mediatedDeviceTypes: [nvidia-3]}
"""


def write(path: Path, text: str, age: float = 60) -> None:
    """With a time stamp of its own, old enough to be trusted."""
    path.write_text(text)
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))


class Reader:
    """Collects what `follow` gives."""

    def __init__(self, file: ConfigFile) -> None:
        self.clock, self.seen = FakeClock(), list[Served]()
        self._file, self._first = file, file.load()

    async def run(self) -> None:
        async for served in self._file.follow(self.clock, self._first):
            self.seen.append(served)


async def test_only_real_changes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    write(path, "virtualMachineInstancesPerNode: 1\n")
    file = ConfigFile(path)
    reader = Reader(file)
    async with running(reader.run(), name="reader"):
        await reader.clock.advance(3)
        write(path, "virtualMachineInstancesPerNode: 1  # the same\n", age=50)
        await reader.clock.advance(1)
        assert (reader.seen, file.loads) == ([], 2)
        write(path, "virtualMachineInstancesPerNode: 2\n", age=40)
        await reader.clock.advance(1)
        assert [served.generic[0].count for served in reader.seen] == [2]
        write(path, "virtualMachineInstancesPerNode: [\n", age=30)
        await reader.clock.advance(5)
        assert (len(reader.seen), file.refusals) == (1, 1)
        path.unlink()
        await reader.clock.advance(5)
        assert (len(reader.seen), file.refusals) == (1, 2)
        write(path, "virtualMachineInstancesPerNode: 2\n", age=20)
        await reader.clock.advance(1)
        assert len(reader.seen) == 1
        write(path, "virtualMachineInstancesPerNode: 3\n", age=10)
        await reader.clock.advance(1)
        assert [served.generic[0].count for served in reader.seen] == [2, 3]


async def test_a_write_at_the_same_time_stamp_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("virtualMachineInstancesPerNode: 1\n")
    reader = Reader(ConfigFile(path))
    status = path.stat()
    async with running(reader.run(), name="reader"):
        await reader.clock.advance(1)
        path.write_text("virtualMachineInstancesPerNode: 2\n")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        await reader.clock.advance(1)
        assert [served.generic[0].count for served in reader.seen] == [2]


async def test_labels_come_from_the_flag_and_the_file(tmp_path: Path) -> None:
    path, labels = tmp_path / "agent.yaml", tmp_path / "labels"
    write(path, MDEVS)
    write(labels, "# nothing\n")
    reader = Reader(ConfigFile(path, {"gpu": "a"}, labels))
    assert reader._first.mdev_types.desired == ("nvidia-2",)
    async with running(reader.run(), name="reader"):
        write(labels, 'zone="x"\ngpu=b\n', age=30)
        await reader.clock.advance(1)
        assert [served.mdev_types.desired for served in reader.seen] == [("nvidia-3",)]


def test_labels_are_lines(tmp_path: Path) -> None:
    text = 'a=b\n\n# c=d\nexample.com/x="y z"\n'
    with pytest.raises(InvalidError, match="labels:4: "):
        parse_labels(text, "labels")
    assert parse_labels(text.replace("y z", ""), "labels") == {"a": "b", "example.com/x": ""}


@pytest.mark.parametrize("line", ["novalue", "=x", "a b=c", "a=" + "x" * 64])
def test_a_bad_label_names_its_line(line: str) -> None:
    with pytest.raises(InvalidError, match="labels:2: "):
        parse_labels(f"ok=1\n{line}\n", "labels")


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    with pytest.raises(Error, match="does not exist"):
        ConfigFile(path).load()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidError, match="not UTF-8"):
        ConfigFile(path).load()
    with path.open("wb") as file:
        file.truncate(5 << 20)
    with pytest.raises(InvalidError, match="4 MiB"):
        ConfigFile(path).load()
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidError, match="is a directory"):
        ConfigFile(path).load()
