from __future__ import annotations

import importlib
import pkgutil
import random

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import dray.wire.gen
from dray.wire.gen import dra_v1_pb2, dra_v1beta1_pb2
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, Empty
from dray.wire.status import BrokenMessage, Code, TooLarge
from dray.wire.transport.messages import PREFIX, length_of, pack, translate, unpack
from tests.campaign import campaign
from tests.wire.samples import filled

MODULES = sorted(module.name for module in pkgutil.iter_modules(dray.wire.gen.__path__))


def message_types(module: str) -> list[type[Message]]:
    file = importlib.import_module(f"dray.wire.gen.{module}").DESCRIPTOR
    return [GetMessageClass(message) for message in file.message_types_by_name.values()]


@pytest.mark.parametrize("module", MODULES)
def test_every_message_survives_the_wire(module: str) -> None:
    for kind in message_types(module):
        rng = random.Random(kind.DESCRIPTOR.full_name)
        for _ in range(campaign(3, 100)):
            message = filled(kind, rng)
            frame = pack(message, 2**20)
            assert length_of(frame[:PREFIX], 2**20) == len(frame) - PREFIX
            assert unpack(frame[PREFIX:], kind) == message


@pytest.mark.parametrize("module", MODULES)
def test_no_bytes_break_a_decoder(module: str) -> None:
    """Random, truncated and mutated bytes give a message or BrokenMessage, nothing else."""
    for kind in message_types(module):
        rng = random.Random(kind.DESCRIPTOR.full_name)
        good = bytearray(filled(kind, rng).SerializeToString())
        for number in range(campaign(50, 1000)):
            data = bytes(broken(good, rng, number % 4))
            try:
                unpack(data, kind).SerializeToString()
            except BrokenMessage as error:
                assert error.code is Code.INTERNAL
                assert kind.DESCRIPTOR.full_name in error.message


def broken(good: bytearray, rng: random.Random, how: int) -> bytes:
    if how == 0 or not good:
        return rng.randbytes(rng.randrange(100))
    if how == 1:
        return bytes(good[: rng.randrange(len(good))])
    data = bytearray(good)
    for _ in range(rng.randrange(1, 5)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data) + (rng.randbytes(9) if how == 3 else b"")


def test_the_same_message_gives_the_same_bytes() -> None:
    one = ContainerAllocateResponse(envs={str(number): "x" for number in range(50)})
    other = ContainerAllocateResponse(envs={str(number): "x" for number in reversed(range(50))})
    assert pack(one, 2**20) == pack(other, 2**20)


def test_limits_are_exact() -> None:
    message = ContainerAllocateResponse(envs={"a": "b"})
    size = message.ByteSize()
    assert len(pack(message, size)) == size + PREFIX
    with pytest.raises(TooLarge, match=f"a message of {size} bytes is larger than the limit of {size - 1}"):
        pack(message, size - 1)
    assert length_of(b"\0\0\0\1\0", 256) == 256
    with pytest.raises(BrokenMessage, match="larger than the limit of 255"):
        length_of(b"\0\0\0\1\0", 255)
    assert pack(Empty(), 0) == b"\0\0\0\0\0"


@pytest.mark.parametrize("flag", [1, 2, 255])
def test_compression_is_refused(flag: int) -> None:
    with pytest.raises(BrokenMessage, match="compressed") as caught:
        length_of(bytes([flag, 0, 0, 0, 0]), 100)
    assert caught.value.code is Code.UNIMPLEMENTED


def test_a_translation_drops_what_the_other_version_lacks() -> None:
    newest = dra_v1_pb2.Device(pool_name="p", device_name="d", share_id="s", cdi_device_ids=["a/b=c"])
    older = translate(newest, dra_v1beta1_pb2.Device)
    assert older == dra_v1beta1_pb2.Device(pool_name="p", device_name="d", cdi_device_ids=["a/b=c"])
    assert (
        older.SerializeToString()
        == dra_v1beta1_pb2.Device.FromString(older.SerializeToString()).SerializeToString()
    )
    assert not translate(older, dra_v1_pb2.Device).HasField("share_id")
