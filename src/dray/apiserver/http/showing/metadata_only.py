"""Objects without anything but their metadata (`as=PartialObjectMetadata`), as collectors of garbage ask for every kind."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dray.apiserver.http.paths import Place
from dray.apiserver.http.watching.lists import Found, as_list
from dray.apiserver.http.watching.watches import Lines
from dray.apiserver.store.contract import ChangeKind

_KIND: Final = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
_LIST: Final = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
_WANTED: Final = ("as=PartialObjectMetadata", "as=PartialObjectMetadataList")


class _Document(msgspec.Struct, gc=False):
    metadata: msgspec.Raw


_metadata = msgspec.json.Decoder(_Document)


def wants_metadata(accept: str) -> bool:
    """Whether an Accept header asks for metadata before anything else this server can give."""
    for one in accept.split(","):
        words = [word.strip() for word in one.split(";")]
        if words[0] in ("application/json", "*/*"):
            return any(word in words for word in _WANTED) and "g=meta.k8s.io" in words and "v=v1" in words
    return False


def metadata_of(raw: bytes) -> bytes:
    """One object."""
    return msgspec.json.encode({**_KIND, "metadata": _metadata.decode(raw).metadata})


def as_metadata(place: Place, found: Found) -> bytes:
    """A list; which objects are in it was decided by their whole contents."""
    head: dict[str, Any] = msgspec.json.decode(as_list(place, found._replace(items=[])))
    return msgspec.json.encode(
        {**head, **_LIST, "items": [msgspec.Raw(metadata_of(one.raw)) for one in found.items]}
    )


class MetadataLines(Lines):
    """A watch."""

    def bookmark(self, revision: int, *, ends_initial: bool = False) -> bytes:
        """How far the watcher is."""
        told = msgspec.json.decode(super().bookmark(revision, ends_initial=ends_initial))
        told["object"] |= _KIND
        return msgspec.json.encode(told) + b"\n"

    def _line(self, kind: ChangeKind, raw: bytes) -> bytes:
        return super()._line(kind, metadata_of(raw))
