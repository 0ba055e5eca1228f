"""The page's own files, read once at the start. What is asked for is looked up, never opened: no path leads anywhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

INDEX: Final = "index.html"
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class File:
    """One of them."""

    content_type: str
    body: bytes
    etag: str


def read_files(root: Traversable | None = None) -> Mapping[str, File]:
    """All files of the page, by path as in its address, the page itself also as ``. Other types of files are not served."""
    found: dict[str, File] = {}
    _read(root or files("dray.dashboard") / "static", "", found)
    if INDEX in found:
        found[""] = found[INDEX]
    return found


def _read(directory: Traversable, place: str, found: dict[str, File]) -> None:
    if not directory.is_dir():
        return
    for one in sorted(directory.iterdir(), key=lambda one: one.name):
        kind = _TYPES.get(one.name.rpartition(".")[2])
        if one.is_dir():
            _read(one, f"{place}{one.name}/", found)
        elif kind is not None and not one.name.startswith("."):
            body = one.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[f"{place}{one.name}"] = File(kind, body, etag)
