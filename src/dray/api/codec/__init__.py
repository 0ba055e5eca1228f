"""JSON and YAML in and out, under one name.

`decode` and `view` give typed views, `loads` and `load_values` plain values, `load_documents` manifests; `encode` and
`dump_yaml` write. The YAML parts are imported when first used: they cost a command line start 50 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dray.api.codec.json_codec import decode, decode_hook, encode, encode_hook, loads, to_raw, view
from dray.api.codec.manifest import Manifest
from dray.api.codec.overlay import overlay

if TYPE_CHECKING:
    from dray.api.codec.yaml_reader import Document

__all__ = [
    "Manifest",
    "decode",
    "decode_hook",
    "dump_yaml",
    "encode",
    "encode_hook",
    "load_documents",
    "load_values",
    "loads",
    "overlay",
    "to_raw",
    "view",
]


def load_documents(data: str | bytes, source: str = "<input>") -> list[Manifest]:
    """All objects of a YAML or JSON file as manifests; see `documents.load_documents`."""
    from dray.api.codec import documents

    return documents.load_documents(data, source)


def load_values(data: str | bytes, source: str = "<input>") -> list[Document]:
    """All documents of a YAML or JSON file as plain values, with their lines; see `documents.load_values`."""
    from dray.api.codec import documents

    return documents.load_values(data, source)


def dump_yaml(*values: Any) -> str:
    """One YAML document for each value: a manifest, a view, or plain data."""
    from dray.api.codec import yaml_writer

    return yaml_writer.dump_all(_plain(value) for value in values)


def _plain(value: Any) -> Any:
    if isinstance(value, Manifest):
        return value.raw
    return to_raw(value) if isinstance(value, msgspec.Struct) else value
