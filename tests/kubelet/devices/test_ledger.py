from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

from dray.errors import ConflictError, InvariantError
from dray.kubelet.devices.checkpoint import CheckpointWriter, decode
from dray.kubelet.devices.grants import Grant
from dray.kubelet.devices.known import GRACE, Device
from dray.kubelet.devices.ledger import Ledger, Reservation
from tests.kubelet.devices.small_node import OTHER, RESOURCE, SmallNode, SmallPlugin, devices, simple


async def test_three_pods_survive_a_restart(tmp_path: Path) -> None:
    node = SmallNode(tmp_path)
    node.plug(RESOURCE, [*devices("a", "b", nodes=(0,)), *devices("c")])
    node.plug(OTHER, devices("x", "y"))
    pods = [simple("p1", res1=1, res2=1), simple("p2", res1=1), simple("p3", res2=1)]
    for pod in pods:
        await node.admit(pod)
    before = {pod.metadata.uid: node.manager.container_devices(pod.metadata.uid, "c") for pod in pods}
    used = node.in_use()
    text = json.loads(node.path.read_bytes())["Data"]
    assert text["RegisteredDevices"] == {RESOURCE: ["a", "b", "c"], OTHER: ["x", "y"]}
    assert [(one["PodUID"], one["DeviceIDs"]) for one in text["PodDeviceEntries"]] == [
        ("p1", {"0": ["a"]}),
        ("p1", {"-1": ["x"]}),
        ("p2", {"0": ["b"]}),
        ("p3", {"-1": ["y"]}),
    ]
    node.restart()
    assert {uid: node.manager.container_devices(uid, "c") for uid in before} == before
    assert node.in_use() == frozenset()
    node.plug(RESOURCE, [*devices("a", "b", nodes=(0,)), *devices("c")])
    assert node.in_use() == used
    node.manager.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-20],
        lambda content: content.replace(b'"a"', b'"b"'),
        lambda content: b"",
        lambda content: b"\x00" * 100,
        lambda content: b'{"Data":{"PodDeviceEntries":[{"DeviceIDs":["a"]}]},"Checksum":1}',
    ],
)
async def test_a_damaged_file_is_kept_and_told_and_stops_nobody(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    node = SmallNode(tmp_path)
    node.plug(RESOURCE, devices("a"))
    await node.admit(simple("pod", res1=1))
    content = damage(node.path.read_bytes())
    node.manager.close()
    node.path.write_bytes(content)
    node.restart()
    assert node.aside is not None
    assert node.aside.moved_to is not None
    assert Path(node.aside.moved_to).name.startswith("kubelet_internal_checkpoint.corrupt-2030")
    assert Path(node.aside.moved_to).read_bytes() == content
    assert not node.manager.was_recreated
    node.plug(RESOURCE, devices("a"))
    await node.admit(simple("pod", res1=1))
    assert decode(node.path.read_bytes()).grants[0].pod_uid == "pod"
    node.manager.close()


def test_only_a_damaged_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = SmallNode(tmp_path)
    node.plug(RESOURCE, devices("a"))
    node.restart()
    assert caplog.text.count("running pods may lose their devices") == 0
    node.manager.close()
    node.path.write_bytes(b"")
    node.restart()
    assert caplog.text.count("running pods may lose their devices") == 1
    node.manager.close()


async def test_a_grant_whose_answer_is_damaged_still_holds_its_devices(tmp_path: Path) -> None:
    node = SmallNode(tmp_path)
    node.manager.close()
    grant = Grant("pod", "c", RESOURCE, {-1: ("a",)}, b"\xff\xff")
    node.path.write_bytes(CheckpointWriter().encode([grant], {RESOURCE: ["a"]}))
    node.active = {"pod", "next"}
    node.restart()
    assert node.aside is None
    node.plug(RESOURCE, devices("a", "b"))
    await node.admit(simple("next", res1=1))
    assert node.ids(simple("next")) == {"b"}
    assert node.ids(simple("pod")) == {"a"}
    node.manager.close()


async def test_the_same_list_again_is_not_written_again(tmp_path: Path) -> None:
    node = SmallNode(tmp_path)
    plugin = node.plug(RESOURCE, devices("a"))
    before = os.stat(node.path).st_ino
    node.manager.listed(RESOURCE, devices("a"), plugin)
    assert os.stat(node.path).st_ino == before
    node.manager.listed(RESOURCE, devices("a", "b"), plugin)
    assert os.stat(node.path).st_ino != before
    node.manager.close()


async def test_a_list_that_cannot_be_written_is_not_lost(tmp_path: Path) -> None:
    node = SmallNode(tmp_path)
    plugin = SmallPlugin()
    node.manager.connected(RESOURCE, plugin)
    node.path.mkdir()
    node.manager.listed(RESOURCE, devices("a"), plugin)
    assert node.manager.capacity().allocatable == {RESOURCE: 1}
    node.path.rmdir()
    node.manager.listed(RESOURCE, devices("a"), plugin)
    assert node.path.is_file()
    node.manager.close()


async def test_one_process_at_a_time(tmp_path: Path) -> None:
    node = SmallNode(tmp_path)
    with pytest.raises(ConflictError):
        SmallNode(tmp_path)
    node.manager.close()
    SmallNode(tmp_path).manager.close()


def test_a_reservation_is_exclusive() -> None:
    reserved: set[str] = set()
    one, two = Reservation(reserved), Reservation(reserved)
    one.take("ab")
    one.take("abc")
    with pytest.raises(InvariantError, match="two containers"):
        two.take("cd")
    two.take("d")
    one.release()
    one.release()
    assert reserved == {"d"}


def test_what_is_free_is_what_is_healthy_and_nobodys_after_any_changes(tmp_path: Path) -> None:
    node, random, plugin = SmallNode(tmp_path), Random(4), SmallPlugin()
    ledger = Ledger(node.around)
    held: list[Grant] = []
    ledger.known.connected(RESOURCE, plugin)
    for step in range(300):
        ids = tuple(f"d{random.randrange(30)}" for _ in range(random.randint(1, 3)))
        match random.randrange(4):
            case 0:
                listed = [Device(f"d{one}", random.random() < 0.8) for one in range(random.randrange(30))]
                ledger.known.listed(RESOURCE, listed, plugin)
            case 1 if held:
                ledger.grants.remove(held.pop(random.randrange(len(held))))
            case _:
                held.append(Grant(f"pod-{step}", "c", RESOURCE, {-1: ids}))
                ledger.grants.add(held[-1])
        if random.random() < 0.7:
            known = ledger.known.get(RESOURCE)
            assert known is not None
            assert ledger.free(RESOURCE) == known.healthy - {one for grant in held for one in grant.ids}
    ledger.known.capacity(0.0)
    ledger.known.stopped(RESOURCE, plugin, 0.0)
    assert ledger.free(RESOURCE) == frozenset()
    ledger.known.capacity(GRACE + 1)
    assert ledger.free(RESOURCE) == frozenset()
    node.manager.close()
