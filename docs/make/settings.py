"""All fields of the files that Dray reads, out of the structs that read them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from docs.make.made import table
from dray.agent.config import Additions
from dray.api.kubevirt.types import Configuration
from dray.api.quantity import Quantity
from dray.drivers.nvidia.parameters import GpuConfig, MigDeviceConfig, VfioDeviceConfig
from dray.drivers.sim.parameters import SimParameters
from dray.drivers.sim.profile import SimProfile

_HEAD = """# All settings

Every field of the files that Dray reads, with its type and what it is where nobody sets it; made from the code by
`make docs`. What each means: [the agent's configuration](config.md), [simulated fleets](sim.md) and [devices in
DRA](dra-devices.md). `[]` is each entry of a list, `{}` each value of a map."""
_ROOTS: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("The agent's file: KubeVirt's part", "", Configuration),
    ("The agent's file: Dray's part", "dray", Additions),
    ("A profile of `--sim`", "", SimProfile),
    ("Parameters of claims: simulated devices", "", SimParameters),
    ("Parameters of claims: NVIDIA `GpuConfig`", "", GpuConfig),
    ("Parameters of claims: NVIDIA `MigDeviceConfig`", "", MigDeviceConfig),
    ("Parameters of claims: NVIDIA `VfioDeviceConfig`", "", VfioDeviceConfig),
)
_WORDS = {str: "text", bool: "true or false", int: "number", float: "number", Quantity: "quantity"}


def settings() -> str:
    """The page."""
    parts = [_HEAD]
    for title, path, kind in _ROOTS:
        parts += [f"## {title}", table(("field", "type", "default"), _rows(path, kind))]
    return "\n\n".join(parts) + "\n"


def _rows(path: str, kind: type[msgspec.Struct]) -> Iterator[tuple[str, str, str]]:
    """A row for each field that holds a value; a field that holds others is the beginning of their names."""
    for field in msgspec.structs.fields(kind):
        here = f"{path}.{field.encode_name}" if path else field.encode_name
        below, suffix = _inner(field.type)
        if below is None:
            yield f"`{here}`", _type(field.type), _default(field)
        else:
            yield from _rows(here + suffix, below)


def _inner(kind: Any) -> tuple[type[msgspec.Struct] | None, str]:
    """The struct that a field holds, and how its place is written: in a list, in a map, or as it is."""
    kind = _bare(kind)
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return kind, ""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (tuple, list):
        below, suffix = _inner(arguments[0])
        return below, f"[]{suffix}"
    if origin is dict:
        below, suffix = _inner(arguments[1])
        return below, f"{{}}{suffix}"
    return None, ""


def _bare(kind: Any) -> Any:
    """Without bounds, and without None where that only means that nothing is set."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (types.UnionType, Union):
        rest = [one for one in get_args(kind) if one is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else kind
    return kind


def _type(kind: Any) -> str:
    kind = _bare(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return " or ".join(_type(one) for one in arguments if one is not type(None))
    if origin in (tuple, list):
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"map to {_type(arguments[1])}"
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return " or ".join(f"`{one.value}`" for one in kind)
    return _WORDS[kind]


def _default(field: FieldInfo) -> str:
    value = field.default
    if value in (msgspec.NODEFAULT, None, "", ()):
        return "required" if field.required else ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
