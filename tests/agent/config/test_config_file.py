from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.agent.config import Served
from dray.agent.config.config_file import ConfigFile, parse_labels
from dray.errors import Error, InvalidError
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running

MDEVS = """
mediatedDevicesConfiguration:
  mediatedDeviceTypes: [nvidia-1]
  nodeMediatedDeviceTypes:
  - {nodeSelector: {gpu: a}, mediatedDeviceTypes: [nvidia-2]}
  - {nodeSelector: {gpu: b}, mediatedDeviceTypes: [nvidia-3]}
"""


class Reader:
    """Collects what `follow` gives. Time passes only here, and never so much that a poll would be due."""

    def __init__(self, file: ConfigFile) -> None:
        self.clock, self.seen = FakeClock(), list[int]()
        self.file, self.first, self.last = file, file.load(), Served()

    async def run(self) -> None:
        async for served in self.file.follow(self.clock, self.first):
            self.last = served
            self.seen.append(served.generic[0].count)

    async def until(self, condition: Callable[[], bool]) -> None:
        for turn in range(3000):
            await self.clock.advance(0.1 if turn < 40 else 0.005)
            if condition():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"seen {self.seen}, {self.file.loads} loads, {self.file.refusals} refusals")


def text(count: int) -> str:
    return f"virtualMachineInstancesPerNode: {count}\n"


async def test_only_real_changes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text(1))
    reader = Reader(ConfigFile(path))
    file = reader.file
    async with running(reader.run(), name="reader"):
        path.write_text(text(1) + "# the same\n")
        await reader.until(lambda: file.loads == 2)
        path.write_text(text(2))
        await reader.until(lambda: reader.seen == [2])
        path.write_text("virtualMachineInstancesPerNode: [\n")
        await reader.until(lambda: file.refusals == 1)
        path.unlink()
        await reader.until(lambda: file.refusals == 2)
        await reader.clock.advance(100)
        assert (reader.seen, file.refusals) == ([2], 2)
        path.write_text(text(2))
        await reader.until(lambda: file.loads == 4)
        path.write_text(text(3))
        await reader.until(lambda: reader.seen == [2, 3])


async def test_a_file_that_goes_again_is_told_again(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text(1))
    reader = Reader(ConfigFile(path))
    async with running(reader.run(), name="reader"):
        path.unlink()
        await reader.until(lambda: reader.file.refusals == 1)
        path.write_text(text(2))
        await reader.until(lambda: reader.seen == [2])
        path.unlink()
        await reader.until(lambda: reader.file.refusals == 2)


async def test_an_edit_between_the_load_and_the_watch_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text(1))
    reader = Reader(ConfigFile(path))
    path.write_text(text(2))
    async with running(reader.run(), name="reader"):
        await reader.until(lambda: reader.seen == [2])


async def test_a_mounted_config_map_is_followed(tmp_path: Path) -> None:
    for version in (1, 2):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "agent.yaml").write_text(text(version))
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "agent.yaml"
    path.symlink_to("..data/agent.yaml")
    reader = Reader(ConfigFile(path))
    async with running(reader.run(), name="reader"):
        (tmp_path / "..new").symlink_to("..2")
        (tmp_path / "..new").rename(tmp_path / "..data")
        await reader.until(lambda: reader.seen == [2])


async def test_a_writer_that_does_not_close_is_seen_by_the_poll(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text(1))
    reader = Reader(ConfigFile(path))
    async with running(reader.run(), name="reader"):
        with path.open("r+") as file:
            file.write(text(2))
            file.flush()
            await reader.clock.advance(59)
            assert reader.seen == []
            await reader.clock.advance(2)
            assert reader.seen == [2]


async def test_labels_come_from_the_flag_and_the_file(tmp_path: Path) -> None:
    path, labels = tmp_path / "agent.yaml", tmp_path / "labels"
    path.write_text(MDEVS)
    labels.write_text("# nothing\n")
    reader = Reader(ConfigFile(path, {"gpu": "a"}, labels))
    assert reader.first.mdev_types.desired == ("nvidia-2",)
    async with running(reader.run(), name="reader"):
        labels.write_text('zone="x"\ngpu=b\n')
        await reader.until(lambda: reader.last.mdev_types.desired == ("nvidia-3",))


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
