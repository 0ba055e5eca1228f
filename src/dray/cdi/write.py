"""Names and content of CDI spec files. `dray.dra.claims.claim_files` writes them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

from dray.api.codec import dump_yaml
from dray.cdi.names import kind_faults
from dray.cdi.registry import ENDINGS
from dray.cdi.spec import Spec, to_document
from dray.errors import InvalidError

_LONGEST_NAME: Final = 255
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def spec_name(kind: str, owner: str = "") -> str:
    """The file's name for a kind, `vendor-class`; `owner` (a claim, a container) makes it one of several.

    Without an ending: `spec_path` adds that of YAML, or add `.json`.
    """
    if faults := kind_faults(kind):
        raise InvalidError(f"kind {kind!r}: {faults[0]}", field="kind")
    name = kind.replace("/", "-")
    return f"{name}_{owner.replace('/', '_')}" if owner else name


def encode_spec(spec: Spec, ending: str) -> bytes:
    """The text of the file. The same spec gives the same bytes."""
    document = to_document(spec)
    if ending == ".json":
        # Runtimes read JSON as YAML: pairs of escapes for one character, and these characters as such, are no YAML.
        text = json.dumps(document, ensure_ascii=False)
        return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"
    return b"---\n" + dump_yaml(document).encode()


def spec_path(directory: Path, name: str) -> Path:
    """Where the file of this name is. InvalidError for a name that leaves the directory or is too long."""
    full = name if name.endswith(ENDINGS) else f"{name}.yaml"
    if "/" in full or "\0" in full or full in ENDINGS or len(os.fsencode(full)) > _LONGEST_NAME:
        raise InvalidError(f"{name!r} cannot be the name of a CDI file", field=name)
    return directory / full
