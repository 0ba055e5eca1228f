"""Which pods this node took, kept on disk: one file each, so that a restart knows them even while no source answers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dray.api.codec import decode, encode
from dray.api.core import Pod
from dray.errors import Error, InvalidError
from dray.kubelet.rejection import Rejection
from dray.runtime.files.durable import (
    make_directory,
    open_directory,
    remove_temporaries,
    sync_directory,
    write_durably,
)
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("kubelet.pods")
_SUFFIX = ".json"


class Record(msgspec.Struct, frozen=True):
    """One pod as it was when this was written. `source` names who wanted it; `ended`: all of it is given back."""

    pod: Pod
    source: str
    rejection: Rejection | None = None
    ended: bool = False


class Records:
    """The directory. What cannot be read is told, set aside and never stops the node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        make_directory(directory)
        remove_temporaries(directory)

    def load(self) -> dict[str, Record]:
        """All records by UID."""
        found: dict[str, Record] = {}
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            try:
                found[path.stem] = _decode(path.read_bytes())
            except (OSError, Error, msgspec.MsgspecError) as error:
                _log.error("pod record cannot be read, set aside", path=path, error=str(error))
                with contextlib.suppress(OSError):
                    path.rename(path.with_suffix(".unreadable"))
        return found

    def save(self, record: Record) -> None:
        """Durable when this returns."""
        name = _name(record.pod.metadata.uid)
        with _told(self._directory / name):
            write_durably(self._directory / name, _encode(record))

    def remove(self, uid: str) -> None:
        """Durable when this returns; nothing happens where there is none."""
        name = _name(uid)
        with _told(self._directory / name), open_directory(self._directory) as directory:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            sync_directory(directory)


def _name(uid: str) -> str:
    if not uid or "/" in uid or uid.startswith("."):
        raise InvalidError(f"pod UID {uid!r} cannot name a file", field="metadata.uid")
    return uid + _SUFFIX


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise from_os_error(error, "keep the record of a pod in", str(path)) from error


def _encode(record: Record) -> bytes:
    document = {
        "pod": msgspec.Raw(encode(record.pod)),
        "source": record.source,
        "rejection": record.rejection,
        "ended": record.ended,
    }
    return msgspec.json.encode(document)


class _Stored(msgspec.Struct):
    pod: msgspec.Raw
    source: str = ""
    rejection: Rejection | None = None
    ended: bool = False


def _decode(data: bytes) -> Record:
    stored = msgspec.json.decode(data, type=_Stored)
    return Record(decode(bytes(stored.pod), Pod), stored.source, stored.rejection, stored.ended)
