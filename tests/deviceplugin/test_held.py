from __future__ import annotations

import asyncio

from dray.deviceplugin.held import by_resource, held_ids, holders
from dray.wire.gen.podresources_v1_pb2 import ContainerDevices
from tests.small_kubelet import SmallKubelet
from tests.waiting import PATIENCE


async def test_what_containers_hold(kubelet: SmallKubelet) -> None:
    async with kubelet.running():
        assert await held_ids(kubelet.directory.parent) == {}
        kubelet.pods = {
            "one": {"example.com/tape": ["tape1", "tape2"], "example.com/cam": ["cam1"]},
            "two": {"example.com/tape": ["tape3"]},
            "three": {},
        }
        assert await held_ids(kubelet.directory.parent) == {
            "example.com/cam": frozenset({"cam1"}),
            "example.com/tape": frozenset({"tape1", "tape2", "tape3"}),
        }


async def test_who_holds_them(kubelet: SmallKubelet) -> None:
    kubelet.pods = {"one": {"example.com/tape": ["tape1"]}, "two": {"example.com/tape": ["tape1", "tape2"]}}
    async with kubelet.running():
        assert await holders(kubelet.directory.parent) == {
            ("example.com/tape", "tape1"): ("default/one", "default/two"),
            ("example.com/tape", "tape2"): ("default/two",),
        }


async def test_a_kubelet_that_does_not_say_is_not_a_kubelet_without_pods(kubelet: SmallKubelet) -> None:
    assert await held_ids(kubelet.directory.parent) is None
    kubelet.slow = 3600.0
    async with kubelet.running(), asyncio.timeout(PATIENCE):
        assert await held_ids(kubelet.directory.parent, timeout=0.1) is None


def test_entries_of_one_resource_are_put_together() -> None:
    entries = [
        ContainerDevices(resource_name="b", device_ids=["2"]),
        ContainerDevices(resource_name="a", device_ids=["1", "3"]),
        ContainerDevices(resource_name="b", device_ids=["2", "4"]),
    ]
    assert by_resource(entries) == {"a": {"1", "3"}, "b": {"2", "4"}}
    assert list(by_resource(entries)) == ["a", "b"]
