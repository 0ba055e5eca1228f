"""The bundle's file: a tar whose bytes depend on nothing but what is in it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from dray.doctor.support.collect import Item
from dray.runtime.files.durable import write_durably
from dray.runtime.files.oserrors import from_os_error

MANIFEST: Final = "MANIFEST.json"
TOP: Final = "dray-support"


def pack(items: Iterable[Item], made: datetime) -> bytes:
    """A gzipped tar with a manifest. The same items at the same time give the same bytes."""
    contents = {one.name: (one.text.encode(), one.source) for one in items}
    listed = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "source": source}
        for name, (data, source) in sorted(contents.items())
    ]
    manifest = json.dumps({"made": made.isoformat(), "contents": listed}, indent=2) + "\n"
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in sorted(
            {MANIFEST: manifest.encode(), **{k: v[0] for k, v in contents.items()}}.items()
        ):
            entry = tarfile.TarInfo(f"{TOP}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, 0
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)


def write(path: Path, data: bytes) -> None:
    """For its owner alone; one of the same name is replaced."""
    try:
        write_durably(path, data)
    except OSError as error:
        raise from_os_error(error, "write the bundle", str(path)) from error
