from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from dray.kubelet.devices.checkpoint import FORMAT, CheckpointFormat, CheckpointWriter, Text, decode
from dray.kubelet.devices.checksum import fnv
from dray.kubelet.devices.grants import Grant
from dray.runtime.files.checkpoint_format import Unreadable
from tests.counting import Calls

GOLDEN = [
    (
        {
            "PodDeviceEntries": None,
            "RegisteredDevices": {"nvidia.com/gpu": ["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]},
        },
        3952659280,
    ),
    ({"PodDeviceEntries": None, "RegisteredDevices": {}}, 3467439661),
]


def file_of(data: Any, checksum: int) -> bytes:
    return json.dumps({"Data": data, "Checksum": checksum}).encode()


@pytest.mark.parametrize(("data", "checksum"), GOLDEN)
def test_a_kubelets_file_is_read(data: dict[str, Any], checksum: int) -> None:
    saved = decode(file_of(data, checksum))
    assert saved.grants == ()
    assert {name: list(ids or ()) for name, ids in saved.registered.items()} == data["RegisteredDevices"]
    with pytest.raises(Unreadable, match="checkpoint is corrupted"):
        decode(file_of(data, checksum + 1))


@pytest.mark.parametrize(("data", "checksum"), GOLDEN)
def test_the_same_is_written(data: dict[str, Any], checksum: int) -> None:
    content = CheckpointWriter().encode([], data["RegisteredDevices"])
    assert content == json.dumps({"Data": data, "Checksum": checksum}, separators=(",", ":")).encode()


def spew(data: dict[str, Any]) -> str:
    """The text of the sum once more, written down as the format's description has it."""

    def values(ids: list[Any] | None) -> str:
        return "<nil>" if ids is None else "[" + " ".join(str(one) for one in ids) + "]"

    entries = []
    for one in data["PodDeviceEntries"] or ():
        nodes = one["DeviceIDs"]
        texts = [f"{node}:{values(nodes[node])}" for node in sorted(nodes or {}, key=int)]
        response = one["AllocResp"]
        entries.append(
            "{PodUID:(string)"
            + one["PodUID"]
            + " ContainerName:(string)"
            + one["ContainerName"]
            + " ResourceName:(string)"
            + one["ResourceName"]
            + " DeviceIDs:(checkpoint.DevicesPerNUMA)"
            + ("<nil>" if nodes is None else "map[" + " ".join(texts) + "]")
            + " AllocResp:([]uint8)"
            + values(None if response is None else list(base64.b64decode(response)))
            + "}"
        )
    listed = "<nil>" if data["PodDeviceEntries"] is None else "[" + " ".join(entries) + "]"
    registered = data["RegisteredDevices"]
    names = [f"{name}:{values(registered[name])}" for name in sorted(registered or {}, key=str.encode)]
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){listed}"
        " RegisteredDevices:(map[string][]string)"
        + ("<nil>" if registered is None else "map[" + " ".join(names) + "]")
        + "}"
    )


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "PodUID": "uid",
        "ContainerName": "c",
        "ResourceName": "example.com/a",
        "DeviceIDs": {"10": ["x"], "-1": ["y", "z"], "9": []},
        "AllocResp": base64.b64encode(b"\x00\xff~").decode(),
    } | changes


@pytest.mark.parametrize(
    "data",
    [
        {"PodDeviceEntries": [], "RegisteredDevices": None},
        {"PodDeviceEntries": None, "RegisteredDevices": {"b": None, "a": [], "é": ["1", "2"], "Z": ["3"]}},
        {"PodDeviceEntries": [entry()], "RegisteredDevices": {}},
        {
            "PodDeviceEntries": [
                entry(DeviceIDs=None, AllocResp=None),
                entry(ContainerName="d", AllocResp="", DeviceIDs={"0": None}),
                entry(PodUID="<&>\u2028", DeviceIDs={}),
            ],
            "RegisteredDevices": {"example.com/a": ["x"]},
        },
    ],
)
def test_every_kind_of_nothing(data: dict[str, Any]) -> None:
    checksum = fnv(spew(data).encode())
    saved = decode(file_of(data, checksum))
    assert len(saved.grants) == len(data["PodDeviceEntries"] or ())
    again = json.loads(CheckpointWriter().encode(saved.grants, saved.registered))
    assert again["Checksum"] == fnv(spew(again["Data"]).encode())
    assert (again["Data"]["PodDeviceEntries"] or []) == (data["PodDeviceEntries"] or [])


ENTRY = (
    '{"PodUID":"5f8d0e7c-1b1f-4a52-9d3a-0c6d1f0a7b11","ContainerName":"main","ResourceName":"nvidia.com/gpu",'
    '"DeviceIDs":{"-1":["tegra"],"10":["b","a"],"2":[]},"AllocResp":"CggKAUESAzwmPgD/"}'
)
WRITTEN_BY_GO = [
    (
        f'{{"Data":{{"PodDeviceEntries":[{ENTRY},'
        '{"PodUID":"u","ContainerName":"c2","ResourceName":"example.com/é","DeviceIDs":{"0":null},"AllocResp":""},'
        '{"PodUID":"u","ContainerName":"c3","ResourceName":"r","DeviceIDs":null,"AllocResp":null}],'
        '"RegisteredDevices":{"B":[],"a":null,"nvidia.com/gpu":["tegra","a"]}},"Checksum":660695770}'
    ),
    f'{{"Data":{{"PodDeviceEntries":[{ENTRY}],"RegisteredDevices":null}},"Checksum":1935503260}}',
    '{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":2932075448}',
]


@pytest.mark.parametrize("text", WRITTEN_BY_GO)
def test_what_the_kubelets_own_code_wrote(text: str) -> None:
    """Made with `checkpoint.New(...).MarshalCheckpoint()` of Kubernetes 1.36.4."""
    data = json.loads(text)["Data"]
    saved = decode(text.encode())
    again = json.loads(CheckpointWriter().encode(saved.grants, saved.registered))["Data"]
    assert (again["PodDeviceEntries"] or []) == data["PodDeviceEntries"]
    assert again["RegisteredDevices"].keys() == (data["RegisteredDevices"] or {}).keys()
    with pytest.raises(Unreadable, match="corrupted"):
        decode(text.replace('"Checksum":', '"Checksum":1').encode())


def test_grants_are_written_as_the_kubelets_own_code_does() -> None:
    """The same content, with the ids of the resource in sorted order."""
    saved = decode(WRITTEN_BY_GO[0].encode())
    content = CheckpointWriter().encode(saved.grants, {**saved.registered, "nvidia.com/gpu": ["a", "tegra"]})
    text = content.decode()
    assert text.startswith(WRITTEN_BY_GO[0][: WRITTEN_BY_GO[0].index(',"RegisteredDevices"')])


def test_nodes_are_sorted_as_text_in_the_file_and_as_numbers_in_the_sum() -> None:
    content = CheckpointWriter().encode([Grant("u", "c", "r", {-1: ("a",), 2: ("b",), 10: ("c",)})], {})
    assert b'"DeviceIDs":{"-1":["a"],"10":["c"],"2":["b"]}' in content
    read = json.loads(content)
    assert read["Checksum"] == fnv(spew(read["Data"]).encode())


def test_a_resource_of_very_many_is_written_by_its_name_only() -> None:
    few = frozenset(f"device-{one:06}" for one in range(1000))
    many = frozenset(f"device-{one:06}" for one in range(50_000))
    saved = decode(CheckpointWriter().encode([], {"many": many, "few": few}))
    assert saved.registered["many"] == ()
    assert set(saved.registered["few"] or ()) == few


def test_signs_are_escaped_as_go_does() -> None:
    content = CheckpointWriter().encode([Grant("<a&b>", "\u2028", "é", {0: ("\x01",)}, b"")], {"\u2029": []})
    assert rb'"PodUID":"\u003ca\u0026b\u003e","ContainerName":"\u2028","ResourceName":"' in content
    assert '"é"'.encode() in content
    assert decode(content).grants[0].pod_uid == "<a&b>"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"Data":{}}',
        b'{"Data":{"PodDeviceEntries":[{"DeviceIDs":["old"]}]},"Checksum":1}',
        b'{"Data":{"PodDeviceEntries":[{"AllocResp":"!"}]},"Checksum":1}',
        b'{"Data":{"PodDeviceEntries":[{"DeviceIDs":{"x":[]}}]},"Checksum":1}',
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_read(content: bytes) -> None:
    with pytest.raises(Unreadable):
        FORMAT.decode(content)


def test_a_writer_used_again_writes_the_same_as_a_new_one() -> None:
    random = Random(2)
    writer = CheckpointWriter()
    grants: list[Grant] = []
    registered = {"example.com/a": frozenset({"x", "y"})}
    for step in range(200):
        if grants and random.random() < 0.4:
            del grants[random.randrange(len(grants))]
        else:
            ids = tuple(f"dev-{random.randrange(50)}" for _ in range(random.randint(1, 3)))
            grants.append(Grant(f"uid{step}", "c", "example.com/a", {-1: ids}, random.randbytes(20)))
        if random.random() < 0.2:
            registered = {"example.com/a": frozenset({f"dev-{random.randrange(50)}"}), "b": frozenset()}
        content = writer.encode(grants, registered)
        assert content == CheckpointWriter().encode(grants, registered)
        assert decode(content).grants == tuple(grants)
    assert FORMAT.decode(FORMAT.encode(Text(content))).saved is not None


def test_one_more_grant_costs_little() -> None:
    writer = CheckpointWriter()
    registered = {"example.com/a": frozenset(f"device-{one:05}" for one in range(10_000))}
    grants: list[Grant] = []
    for step in range(1000):
        grants.append(Grant(f"uid-{step:030}", "c", "example.com/a", {0: (f"device-{step:05}",)}, b"x" * 100))
        if step >= 800:
            writer.encode(grants, registered)
    with Calls() as whole:
        CheckpointWriter().encode(grants, registered)
    for _ in range(10):
        grants.append(grants.pop(random_index(len(grants))))
        with Calls() as one_more:
            writer.encode(grants, registered)
        assert one_more.count < whole.count / 4


def random_index(size: int) -> int:
    return Random(size).randrange(size - 20, size)


def test_ids_are_listed_up_to_half_a_million_characters() -> None:
    half = {"half": ["x" * 262_144, "y" * 262_144], "more": ["x" * 262_144, "y" * 262_145]}
    saved = decode(CheckpointWriter().encode([], half))
    assert [len(saved.registered[name] or ()) for name in half] == [2, 0]


def test_a_file_of_more_than_64_mebibytes_is_not_read() -> None:
    assert FORMAT.max_size == 67_108_864
    small = CheckpointFormat(Text, max_size=10)
    with pytest.raises(Unreadable, match="larger than the limit of 10 bytes"):
        small.decode(b" " * 11)
    with pytest.raises(Unreadable, match="not a kubelet's checkpoint"):
        small.decode(b" " * 10)


def test_a_writer_forgets_grants_when_most_are_gone() -> None:
    writer = CheckpointWriter()
    grants = [Grant(f"uid{one}", "c", "example.com/a", {0: (f"{one}",)}) for one in range(10)]
    for left, kept in ((10, 10), (5, 10), (4, 4), (3, 4), (2, 4), (1, 1)):
        writer.encode(grants[:left], {})
        assert len(writer._grants) == kept, left
