"""The committed code is what the `.proto` files say, and they say what Kubernetes says."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

import dray.wire.gen
from dray.wire.generate import TARGET, generate

UPSTREAM: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "upstream_fields.json").read_text())
MODULES = sorted(m.name for m in pkgutil.iter_modules(dray.wire.gen.__path__))
SCALARS = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}
PARTIAL = "cri_v1_pb2"
"""CRI is declared in part; every other file must be complete."""


def files() -> list[FileDescriptor]:
    return [importlib.import_module(f"dray.wire.gen.{name}").DESCRIPTOR for name in MODULES]


def messages(holder: Any) -> list[Descriptor]:
    found = []
    for message in holder:
        found += [message, *messages(message.nested_types)]
    return found


def declared(file: FileDescriptor) -> list[Descriptor]:
    return messages(file.message_types_by_name.values())


def fact(field: FieldDescriptor) -> list[Any]:
    inner = field.message_type or field.enum_type
    kind = inner.full_name if inner is not None else SCALARS[field.type]
    explicit = field.has_presence and field.message_type is None
    label = "repeated" if field.is_repeated else "optional" if explicit else "singular"
    return [field.name, field.number, kind, label]


def test_the_committed_code_is_the_generated_code(tmp_path: Path) -> None:
    fresh = {path.name: path.read_text() for path in generate(tmp_path)}
    committed = {path.name: path.read_text() for path in TARGET.glob("*.py*")}
    assert sorted(fresh) == sorted(committed)
    for name, text in fresh.items():
        assert text == committed[name], f"{name} is out of date: run `make proto`"


def test_every_proto_file_has_its_module() -> None:
    stems = {path.stem for path in (TARGET.parent / "proto").glob("*.proto")}
    assert {f"{stem}_pb2" for stem in stems} == set(MODULES)


@pytest.mark.parametrize("file", files(), ids=MODULES)
def test_every_field_is_upstreams(file: FileDescriptor) -> None:
    for message in declared(file):
        upstream = UPSTREAM["messages"][message.full_name]
        ours = [fact(field) for field in message.fields]
        assert [field for field in ours if field not in upstream] == [], message.full_name


@pytest.mark.parametrize("file", files(), ids=MODULES)
def test_every_enum_is_upstreams(file: FileDescriptor) -> None:
    enums: list[EnumDescriptor] = list(file.enum_types_by_name.values())
    for message in declared(file):
        enums += message.enum_types
    for enum in enums:
        assert [[v.name, v.number] for v in enum.values] == UPSTREAM["enums"][enum.full_name]


@pytest.mark.parametrize("file", files(), ids=MODULES)
def test_every_method_is_upstreams(file: FileDescriptor) -> None:
    for service in file.services_by_name.values():
        for method in service.methods:
            types = [method.input_type.full_name, method.output_type.full_name]
            path = f"/{service.full_name}/{method.name}"
            assert [*types, method.server_streaming] == UPSTREAM["methods"][path]
            assert not method.client_streaming


def test_nothing_but_cri_is_partial() -> None:
    ours = {m.full_name: m for f in files() for m in declared(f)}
    missing = {name for name in UPSTREAM["messages"] if name not in ours}
    assert {name for name in missing if not name.startswith("runtime.v1.")} == set()
    for name, fields in UPSTREAM["messages"].items():
        if not name.startswith("runtime.v1."):
            assert [fact(field) for field in ours[name].fields] == fields
    served = {
        f"/{s.full_name}/{m.name}" for f in files() for s in f.services_by_name.values() for m in s.methods
    }
    assert {m for m in UPSTREAM["methods"] if m not in served and not m.startswith("/runtime.v1.")} == set()


def test_fields_left_out_of_cri_survive_a_round_trip() -> None:
    cri = importlib.import_module("dray.wire.gen.cri_v1_pb2")
    # ContainerConfig.stop_signal = 18, which is not declared: tag (18 << 3 | varint), value 23.
    data = cri.ContainerConfig(log_path="x").SerializeToString() + b"\x90\x01\x17"
    assert cri.ContainerConfig.FromString(data).SerializeToString() == data
