"""CDI spec files: written whole or not at all, and removed. Both may be repeated, also after a restart.

A runtime that scans the directory meanwhile sees the old file or the new one: what is under way has a name that it does
not look at. That name is in the same directory, because runtimes with CDI up to 1.1.0 notice only renames within it.
"""

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
from dray.cdi.validate import check_spec
from dray.errors import InvalidError
from dray.runtime.files.durable import make_directory, open_directory, replace_file, sync_directory
from dray.runtime.files.oserrors import from_os_error

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_LONGEST_NAME: Final = 255
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def spec_name(kind: str, owner: str = "") -> str:
    """The file's name for a kind, `vendor-class`; `owner` (a claim, a container) makes it one of several.

    Without an ending: `write_spec` then writes YAML, or add `.json`.
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


def write_spec(directory: Path, spec: Spec, name: str) -> Path:
    """Write or replace the file, on disk when this returns. Makes the directory where there is none.

    InvalidError for a spec that runtimes would refuse: nothing is written then.
    """
    check_spec(spec)
    path = spec_path(directory, name)
    try:
        data = encode_spec(spec, path.suffix)
        make_directory(directory, _DIRECTORY_MODE)
        with open_directory(directory) as descriptor:
            replace_file(descriptor, path.name, data, mode=_FILE_MODE)
    except OSError as error:
        raise from_os_error(error, "write", str(path)) from error
    return path


def remove_spec(directory: Path, name: str) -> None:
    """Remove the file; one that is not there is removed already."""
    path = spec_path(directory, name)
    try:
        with open_directory(directory) as descriptor:
            os.unlink(path.name, dir_fd=descriptor)
            sync_directory(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        raise from_os_error(error, "remove", str(path)) from error


def spec_path(directory: Path, name: str) -> Path:
    """Where the file of this name is. InvalidError for a name that leaves the directory or is too long."""
    full = name if name.endswith(ENDINGS) else f"{name}.yaml"
    if "/" in full or "\0" in full or full in ENDINGS or len(os.fsencode(full)) > _LONGEST_NAME:
        raise InvalidError(f"{name!r} cannot be the name of a CDI file", field=name)
    return directory / full
