from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from dray.agent.config import MdevTypes
from dray.agent.config.config_file import ConfigFile
from dray.errors import InvalidError
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.waiting import wait_until

MDEVS = """
mediatedDevicesConfiguration:
  mediatedDeviceTypes: [nvidia-1]
  nodeMediatedDeviceTypes:
  - {nodeSelector: {gpu: a}, mediatedDeviceTypes: [nvidia-2]}
  - {nodeSelector: {gpu: b}, mediatedDeviceTypes: [nvidia-3]}
"""


class Node:
    """Labels that a test sets."""

    def __init__(self) -> None:
        self.labels: Mapping[str, str] | None = None
        self.generation = 0
        self._turn = asyncio.Event()

    def set(self, **labels: str) -> None:
        self.labels = labels
        self.generation += 1
        self._turn.set()
        self._turn = asyncio.Event()

    async def wait_newer(self, generation: int) -> None:
        while self.generation <= generation:
            await self._turn.wait()


class Reader:
    def __init__(self, file: ConfigFile) -> None:
        self.file, self.last = file, file.load()

    async def run(self) -> None:
        async for served in self.file.follow(SystemClock(), self.last):
            self.last = served

    @property
    def desired(self) -> tuple[str, ...]:
        return self.last.mdev_types.desired


def config(tmp_path: Path, text: str = MDEVS) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    return path


async def test_another_label_on_the_node_switches_the_type(tmp_path: Path) -> None:
    node = Node()
    node.set(gpu="a")
    reader = Reader(ConfigFile(config(tmp_path), node=node))
    assert reader.desired == ("nvidia-2",)
    async with running(reader.run(), name="reader"):
        node.set(gpu="b")
        await wait_until(lambda: reader.desired == ("nvidia-3",), "the other type")
        node.set()
        await wait_until(lambda: reader.desired == ("nvidia-1",), "the default")


async def test_no_mediated_device_is_touched_before_the_labels_are_known(tmp_path: Path) -> None:
    node = Node()
    reader = Reader(ConfigFile(config(tmp_path), node=node))
    assert reader.last.mdev_types == MdevTypes(managed=False)
    async with running(reader.run(), name="reader"):
        node.set(gpu="a")
        await wait_until(lambda: reader.desired == ("nvidia-2",), "the type of the label")
    plain = config(tmp_path, "mediatedDevicesConfiguration: {mediatedDeviceTypes: [nvidia-1]}")
    assert ConfigFile(plain, node=Node()).load().mdev_types.desired == ("nvidia-1",), "no label counts here"


async def test_flags_go_before_the_node_and_the_node_before_the_config(tmp_path: Path) -> None:
    node = Node()
    node.set(gpu="b")
    path = config(tmp_path, MDEVS + "dray: {nodeLabels: {gpu: a}}\n")
    assert ConfigFile(path, node=node).load().mdev_types.desired == ("nvidia-3",)
    assert ConfigFile(path, {"gpu": "a"}, node=node).load().mdev_types.desired == ("nvidia-2",)
    node.set()
    assert ConfigFile(path, node=node).load().mdev_types.desired == ("nvidia-2",)


async def test_labels_count_also_while_the_text_is_bad(tmp_path: Path) -> None:
    node = Node()
    node.set(gpu="a")
    path = config(tmp_path)
    reader = Reader(ConfigFile(path, node=node))
    async with running(reader.run(), name="reader"):
        path.unlink()
        node.set(gpu="b")
        await wait_until(lambda: reader.desired == ("nvidia-3",), "the other type")
        assert reader.file.refusals == 1


def test_a_refusal_at_start_is_told_too(tmp_path: Path) -> None:
    told: list[tuple[str, object]] = []
    file = ConfigFile(
        config(tmp_path, "x: 1"), on_refusal=lambda error, about: told.append((str(error), about))
    )
    with pytest.raises(InvalidError) as caught:
        file.load()
    assert told == [(str(caught.value), ())]
