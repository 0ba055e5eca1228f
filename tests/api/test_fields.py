"""The typed views against the Go types they view: no field missing, none invented, each of the same type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import inspect

from dray.api import core, meta, resource
from dray.api.quantity import Quantity
from tests.cases import read_lines

FIELDS = dict(line.split(" ") for line in read_lines(Path(__file__).parent / "oracle/fields/v0.36.4.txt"))
COMPLETE = (
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
    "Status",
)
PARTIAL = ("Pod", "Node", "Namespace", "Event", "ConfigMap", "Lease")
WEAKLY_KEPT = {"ResourceSlice"}
"""What is known of these goes with them; only what the collector visits can be referred to weakly."""
ALWAYS_NONE_ABLE = {"metav1.Time", "metav1.MicroTime", "runtime.RawExtension"}
"""Value types in Go whose zero value is None here."""


def view(name: str) -> type[meta.Model]:
    found = getattr(resource, name, None) or getattr(core, name, None) or getattr(meta, name)
    assert isinstance(found, type)
    return found


def paths(info: inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    """Every field below, as `extract.py` writes Go's."""
    pointer = ""
    if isinstance(info, inspect.UnionType):
        info = next(one for one in info.types if not isinstance(one, inspect.NoneType))
        pointer = "*"
    if isinstance(info, inspect.StructType):
        if pointer:
            yield path, "*struct"
        for field in info.fields:
            yield from paths(field.type, f"{path}.{field.encode_name}")
    elif isinstance(info, inspect.VarTupleType):
        yield from paths(info.item_type, f"{path}[]")
    elif isinstance(info, inspect.DictType) and isinstance(info.value_type, inspect.AnyType):
        yield path, f"{pointer}struct"
    elif isinstance(info, inspect.DictType):
        yield from paths(info.value_type, f"{path}{{}}")
    else:
        yield path, pointer + leaf(info)


def leaf(info: inspect.Type) -> str:
    if isinstance(info, inspect.IntType):
        return "int64" if info.le == 2**63 - 1 and info.ge == -(2**63) else "int32"
    if isinstance(info, inspect.CustomType):
        assert info.cls is Quantity
        return "resource.Quantity"
    if isinstance(info, inspect.StrType):
        return "metav1.MicroTime" if info.pattern else "string"
    if isinstance(info, inspect.DateTimeType):
        assert info.tz
        return "metav1.Time"
    names: dict[type[inspect.Type], str] = {
        inspect.BoolType: "bool",
        inspect.AnyType: "runtime.RawExtension",
        inspect.BytesType: "byte",
    }
    return names[type(info)]


def comparable(path: str, kind: str) -> tuple[str, str]:
    """Bytes are a list in Go, and some value types become None-able here."""
    bare = kind.removeprefix("*")
    return path.removesuffix("[]") if bare == "byte" else path, bare if bare in ALWAYS_NONE_ABLE else kind


@pytest.mark.parametrize("name", [*COMPLETE, *PARTIAL])
def test_every_field_is_of_go_s_type(name: str) -> None:
    theirs = {comparable(path, kind) for path, kind in FIELDS.items() if path.split(".")[0] == name}
    ours = {comparable(path, kind) for path, kind in paths(inspect.type_info(view(name)), name)}
    # A pod's ephemeral containers are typed like the others, which have one field less.
    ours = {(path, kind) for path, kind in ours if not path.endswith("ontainers[].targetContainerName")}
    assert sorted(ours - theirs) == []


@pytest.mark.parametrize("name", COMPLETE)
def test_no_field_is_missing(name: str) -> None:
    theirs = {comparable(path, kind) for path, kind in FIELDS.items() if path.split(".")[0] == name}
    ours = {comparable(path, kind) for path, kind in paths(inspect.type_info(view(name)), name)}
    assert len(theirs) > 5
    assert sorted(theirs - ours) == []


def test_views_are_frozen_and_outside_the_garbage_collector() -> None:
    for name in [*COMPLETE, *PARTIAL]:
        config = view(name).__struct_config__
        assert config.frozen
        assert config.omit_defaults
        assert config.gc == config.weakref == (name in WEAKLY_KEPT)
