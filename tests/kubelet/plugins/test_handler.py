from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dray.errors import InvalidError
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.handler import DevicePluginHandler
from tests.kubelet.plugins.real_plugin import RESOURCE, Plugin, Recorder, connections, devices
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("name", "versions", "text"),
    [
        (RESOURCE, ["v1beta1"], ""),
        (RESOURCE, ["v2", "v1beta1"], ""),
        (RESOURCE, [], "manager version, v1beta1, is not among plugin supported versions []"),
        (
            "bad",
            ["v1", "v2"],
            "manager version, v1beta1, is not among plugin supported versions [v1 v2]",
        ),
        (
            "bad",
            ["v1beta1"],
            'invalid name of device plugin socket: the ResourceName "bad" is invalid',
        ),
    ],
)
def test_validation(name: str, versions: list[str], text: str) -> None:
    handler = DevicePluginHandler(Connections(Recorder()), lambda endpoint: None)
    if not text:
        handler.validate(name, "/s", versions)
        return
    with pytest.raises(InvalidError) as caught:
        handler.validate(name, "/s", versions)
    assert str(caught.value) == text


async def test_register_loss_and_deregister(tmp_path: Path) -> None:
    recorder, plugin, lost = Recorder(), Plugin(), list[str]()
    async with connections(recorder) as made, plugin.serving(tmp_path / "s"):
        handler = DevicePluginHandler(made, lost.append)
        await handler.register(RESOURCE, str(tmp_path / "s"), ["v1beta1"])
        await wait_until(lambda: "listed s a,b" in recorder.words)
        await handler.deregister(RESOURCE, str(tmp_path / "s"))
        assert not made.endpoints
        assert not lost
        await handler.register(RESOURCE, str(tmp_path / "s"), ["v1beta1"])
        plugin.lists.put_nowait(None)
        await wait_until(lambda: lost == [str(tmp_path / "s")])


async def test_registered_again_on_other_sockets_with_other_devices(tmp_path: Path) -> None:
    recorder = Recorder()
    async with connections(recorder) as made, AsyncExitStack() as stack:
        handler = DevicePluginHandler(made, lambda _: None)
        for name, ids in (("one", "ab"), ("two", "ab"), ("three", "c")):
            await stack.enter_async_context(Plugin(first=devices(*ids)).serving(tmp_path / name))
            await handler.register(RESOURCE, str(tmp_path / name), ["v1beta1"])
            await wait_until(lambda: recorder.words[-1].startswith("listed"))
            assert [one.id for one in recorder.newest[RESOURCE]] == list(ids)
