"""Goldens are files that a kubelet of Kubernetes 1.36 wrote."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from dray.errors import Error, InvalidError
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.state_file import StateFile, _StateFormat, decode, encode
from dray.runtime.clock import FakeClock
from dray.runtime.files.checkpoint_format import Unreadable

POD = "139cdb46-f989-4f17-9561-ca10cfb509a6"
UID = "067798be-454e-4be4-9047-1aa06aea63f7"
OTHER_UID = "4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
DRIVER = "test-driver.cdi.k8s.io"
CDI = ("example.com/example=cdi-example",)
REQUEST = ("test request",)
SHARE = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
_HEAD = '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":'


def claim(*devices: ClaimDevice, name: str = "example", uid: str = UID) -> ClaimInfo:
    return ClaimInfo("default", name, uid, frozenset({POD}), {DRIVER: devices})


def device(name: str, share: str | None = None) -> ClaimDevice:
    return ClaimDevice("worker-1", name, share, REQUEST, CDI)


def file_of(inner: str, checksum: int | None = None) -> bytes:
    found = zlib.crc32(inner.encode()) if checksum is None else checksum
    return json.dumps({"Data": inner, "Checksum": found}).encode()


GOLDENS = [
    ((claim(device("dev-1")),), 2570581864),
    ((claim(device("dev-1", SHARE)),), 736302156),
    ((claim(device("dev-1"), device("dev-2")),), 1223221469),
    (
        (
            claim(device("dev-1"), name="example-1"),
            claim(ClaimDevice("worker-1", "dev-2"), name="example-2", uid=OTHER_UID),
        ),
        2820117767,
    ),
]


@pytest.mark.parametrize(("claims", "checksum"), GOLDENS)
def test_the_bytes_are_those_of_a_kubelet(claims: tuple[ClaimInfo, ...], checksum: int) -> None:
    content = encode(claims)
    assert json.loads(content)["Checksum"] == checksum
    assert list(json.loads(content)) == ["Data", "Checksum"]
    assert decode(content) == claims


def test_one_golden_in_full() -> None:
    inner = (
        _HEAD
        + '[{"ClaimUID":"067798be-454e-4be4-9047-1aa06aea63f7","ClaimName":"example","Namespace":"default",'
        '"PodUIDs":{"139cdb46-f989-4f17-9561-ca10cfb509a6":{}},"DriverState":{"test-driver.cdi.k8s.io":{"Devices":'
        '[{"PoolName":"worker-1","DeviceName":"dev-1","ShareID":null,"RequestNames":["test request"],'
        '"CDIDeviceIDs":["example.com/example=cdi-example"]}]}}}]}'
    )
    escaped = inner.replace('"', '\\"')
    assert encode((claim(device("dev-1")),)).decode() == f'{{"Data":"{escaped}","Checksum":2570581864}}'


def test_no_claims_is_null_and_an_empty_driver_too() -> None:
    assert json.loads(encode(()))["Data"] == _HEAD + "null}"
    assert '"Devices":null' in json.loads(encode((claim(),)))["Data"]


def test_go_escapes_inside_and_outside() -> None:
    odd = ClaimInfo("default", "x", "<&>\u2028\u2029é", frozenset(), {})
    content = encode((odd,)).decode()
    assert "\\\\u003c\\\\u0026\\\\u003e\\\\u2028\\\\u2029é" in content
    assert decode(content.encode()) == (odd,)


def test_the_order_of_the_claims_does_not_change_the_file() -> None:
    pair = GOLDENS[3][0]
    assert encode(reversed(pair)) == encode(pair)


@pytest.mark.parametrize(
    ("inner", "devices"),
    [
        # A file from before share ids and request names, and one of an older version.
        (
            '"v1","ClaimInfoStateList":[{"ClaimUID":"u","DriverState":{"d":{"Devices":[{"PoolName":"p"}]}}}]}',
            1,
        ),
        ('"v0","ClaimInfoStateList":[{"ClaimUID":"u","DriverState":{"d":{"Devices":null}}}]}', 0),
        # A newer kubelet's field is not ours.
        ('"v1","ClaimInfoStateList":[{"ClaimUID":"u","DriverState":{"d":{"skipNodeOperations":["*"]}}}]}', 0),
    ],
)
def test_missing_and_unknown_fields_are_fine(inner: str, devices: int) -> None:
    (found,) = decode(file_of('{"kind":"DRACheckpoint","apiVersion":' + inner))
    assert (found.uid, len(found.drivers["d"])) == ("u", devices)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it cannot be read"),
        (b"not json", "it cannot be read"),
        (file_of(_HEAD + "null}", 1), "checkpoint is corrupted"),
        (file_of("{"), "its data cannot be read"),
        (file_of(_HEAD + '[{"ClaimUID":7}]}'), "its data cannot be read"),
        (b'{"Data":"","Checksum":0}', "its data cannot be read"),
        (b"\xff\xfe", "it cannot be read"),
        (b"[" * 100_000, "it cannot be read"),
    ],
)
def test_what_is_no_state_file(content: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        decode(content)


def test_a_corrupt_file_is_set_aside_and_the_node_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "dra_manager_state"
    path.write_bytes(b"half a fi")
    file = StateFile(path, FakeClock())
    assert file.open() == ()
    file.save((claim(),))
    file.close()
    (aside,) = tmp_path.glob("dra_manager_state.corrupt-*")
    assert aside.read_bytes() == b"half a fi"
    assert decode(path.read_bytes()) == (claim(),)
    assert "the record of prepared claims is lost" in caplog.text


def test_the_same_state_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "dra_manager_state"
    file = StateFile(path, FakeClock())
    file.open()
    file.save((claim(),))
    first = path.stat().st_ino
    file.save((claim(),))
    assert path.stat().st_ino == first
    file.save(())
    assert path.stat().st_ino != first
    file.close()


def test_after_a_failed_write_the_disk_is_not_trusted(tmp_path: Path) -> None:
    path, lock = tmp_path / "dra_manager_state", tmp_path / "dra_manager_state.lock"
    file = StateFile(path, FakeClock())
    file.open()
    file.save((claim(),))
    lock.unlink()
    lock.mkdir()
    with pytest.raises(Error):
        file.save(())
    lock.rmdir()
    path.write_text("what a failed write may leave behind")
    file.save((claim(),))
    assert decode(path.read_bytes()) == (claim(),)
    file.close()


def test_a_file_may_be_as_large_as_the_limit_and_no_larger() -> None:
    claims = (ClaimInfo("ns", "c", "u"),)
    size = len(encode(claims))
    assert _StateFormat(tuple, max_size=size).encode(claims) == encode(claims)
    with pytest.raises(InvalidError, match=f"need {size} bytes"):
        _StateFormat(tuple, max_size=size - 1).encode(claims)
