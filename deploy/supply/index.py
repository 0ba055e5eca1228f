"""What a package index says of its files: which there are, and which were withdrawn. JSON or HTML, as the index answers."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.1"
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class File:
    """One of a package's files. `yanked` None: it is offered; else why not, which may be empty."""

    name: str
    sha256: str
    yanked: str | None


class UnreachableError(Exception):
    """Nobody answers there, or not with what is asked for."""


def fetch(url: str, accept: str = "application/json") -> tuple[str, bytes]:
    """The type and the body of an answer."""
    if not url.startswith(("https://", "http://")):
        raise UnreachableError(f"{url} is no address of an index")
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310  # looked at above
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310
            return answer.headers.get_content_type(), answer.read()
    except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url}: {error}") from error


def files_of(index: str, name: str) -> list[File]:
    """All files of a package."""
    kind, body = fetch(f"{index.rstrip('/')}/{name}/", _ACCEPT)
    try:
        text = body.decode()
        return _from_json(json.loads(text)) if kind.endswith("json") else _from_html(text)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreachableError(f"{index}/{name}/ has no list of files: {error}") from error


def _from_json(page: Any) -> list[File]:
    return [File(one["filename"], one["hashes"].get("sha256", ""), _reason(one)) for one in page["files"]]


def _reason(file: dict[str, Any]) -> str | None:
    yanked = file.get("yanked", False)
    return None if yanked is False else "" if yanked is True else str(yanked)


def _from_html(page: str) -> list[File]:
    reader = _Links()
    reader.feed(page)
    return reader.files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An `a` for each file."""
        facts = dict(attrs)
        address, _, fragment = (facts.get("href") or "").partition("#")
        if tag == "a" and address:
            sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
            yanked = (facts["data-yanked"] or "") if "data-yanked" in facts else None
            self.files.append(File(address.rpartition("/")[2], sha256, yanked))
