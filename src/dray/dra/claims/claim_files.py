"""The CDI file of each claim: written, looked at again, removed, and read back where the checkpoint is lost.

One file a claim, one CDI device a request. Annotations of the file hold the claim's entry, so that the files alone tell
what is prepared. What this module does waits for the disk: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from dray.api.codec.yaml_reader import MAX_BYTES
from dray.api.names import annotations_size
from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.cdi.names import qualified
from dray.cdi.spec import Edits, Spec, SpecDevice, read_spec, spec_edits
from dray.cdi.validate import check_spec
from dray.cdi.versions import at_minimum_version
from dray.cdi.write import encode_spec, spec_name, spec_path
from dray.dra.claims.directories import meant, open_whole, put_entry, read_entry, remove_entry
from dray.dra.claims.kept_directory import KeptDirectory
from dray.dra.claims.state import Entry, Phase, Request, decode_entry, encode_entry
from dray.dra.names import cdi_device, cdi_kind
from dray.dra.parcels import ClaimRef
from dray.errors import DeniedError, Error, InvalidError
from dray.runtime.files.safepath import SafePath
from dray.runtime.logs import get_log

_log = get_log("dra")

ANNOTATION: Final = "dray.internal/claim"
_ENDING: Final = ".yaml"
_MODE: Final = 0o644


def request_id(driver: str, uid: str, request: Request) -> str | None:
    """The CDI name of a request; None where it gives a container nothing."""
    return qualified(cdi_kind(driver), cdi_device(uid, request.base_name)) if request.edits else None


def claim_spec(driver: str, entry: Entry) -> Spec | None:
    """The content of the file; None where no request gives a container anything. InvalidError for impossible edits."""
    if names := [name for request in entry.requests for name in request.edits.cdi_devices]:
        raise InvalidError(
            f"names of CDI devices cannot be given through a claim: {names[0]}", field=names[0]
        )
    devices = tuple(
        SpecDevice(cdi_device(entry.claim.uid, request.base_name), spec_edits(request.edits))
        for request in entry.requests
        if request.edits
    )
    if not devices:
        return None
    annotations = {ANNOTATION: _told(entry)}
    if annotations_size(annotations):  # runtimes would refuse the file: it cannot be read back, but it works
        annotations = {}
    return at_minimum_version(Spec("", cdi_kind(driver), devices, annotations=annotations))


def _told(entry: Entry) -> str:
    """The entry without the edits, which the file has anyway."""
    requests = tuple(msgspec.structs.replace(one, edits=ContainerEdits()) for one in entry.requests)
    completed = msgspec.structs.replace(entry, requests=requests, phase=Phase.COMPLETED)
    return encode_entry(completed).decode()


class ClaimFiles:
    """The CDI files of one driver in one directory. Errors: DeniedError where the directory is a link, and the disk's."""

    def __init__(self, driver: str, cdi_dir: Path) -> None:
        self._driver = driver
        self._directory = cdi_dir
        self._kept = KeptDirectory(cdi_dir, lambda: open_whole(cdi_dir))
        self._prefix = f"{spec_name(cdi_kind(driver))}_"

    def close(self) -> None:
        """Let go of the directory."""
        self._kept.close()

    def name(self, uid: str) -> str:
        """The file of a claim."""
        return spec_path(self._directory, spec_name(cdi_kind(self._driver), uid)).name

    def ensure(self, entry: Entry, *, fresh: bool = False) -> bool:
        """Make the file so; False where it was so already. `fresh`: do not look, just write."""
        spec = claim_spec(self._driver, entry)
        if spec is None:
            return False
        check_spec(spec)
        # JSON is YAML too, and takes a fifth of the time to write for a GPU with all its libraries.
        name, content = self.name(entry.claim.uid), encode_spec(spec, ".json")
        with self._kept.opened() as directory:
            if not fresh and _content(directory, name) == content:
                return False
            put_entry(directory, name, content, _MODE)
        return True

    def remove(self, uid: str) -> None:
        """Remove the file; one that is not there is removed already."""
        with self._opened() as directory:
            if directory is not None:
                remove_entry(directory, self.name(uid))

    def uids(self) -> tuple[str, ...]:
        """The claims that have a file, whole or half written, sorted."""
        with self._opened() as directory:
            names = directory.listdir() if directory is not None else []
        mine = {
            name for name in map(meant, names) if name.startswith(self._prefix) and name.endswith(_ENDING)
        }
        return tuple(sorted(name.removeprefix(self._prefix).removesuffix(_ENDING) for name in mine))

    def read_back(self) -> tuple[Entry, ...]:
        """The entries of all files, by UID. A file that cannot be understood is told and left out."""
        found = (self._read(uid) for uid in self.uids())
        return tuple(entry for entry in found if entry is not None)

    def _read(self, uid: str) -> Entry | None:
        name = self.name(uid)
        try:
            with self._kept.opened() as directory:
                content = read_entry(directory, name, MAX_BYTES)
            return None if content is None else _entry(content, name, uid)
        except (Error, msgspec.MsgspecError, RecursionError) as error:
            _log.warning("CDI file of a claim cannot be read back", file=name, error=str(error))
            return None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[SafePath | None]:
        """None where there is no directory: it is not made to look into it."""
        if not os.path.lexists(self._directory):
            yield None
            return
        with self._kept.opened() as directory:
            yield directory


def _content(directory: SafePath, name: str) -> bytes | None:
    """What is there now; a link or something else is to be replaced, as if there were nothing."""
    try:
        return read_entry(directory, name, MAX_BYTES)
    except (DeniedError, InvalidError):
        return None


def _entry(content: bytes, name: str, uid: str) -> Entry:
    spec = read_spec(content, name).spec
    entry = decode_entry(spec.annotations.get(ANNOTATION, ""))
    if entry.claim.uid != uid:
        raise InvalidError(f"{name} is about claim {entry.claim.uid}", field=name)
    edits = {device.name: parcel(device.container_edits) for device in spec.devices}
    requests = tuple(
        msgspec.structs.replace(one, edits=edits.get(cdi_device(uid, one.base_name), ContainerEdits()))
        for one in entry.requests
    )
    return msgspec.structs.replace(entry, requests=requests)


def parcel(edits: Edits) -> ContainerEdits:
    """What `spec_edits` was given."""
    pairs = (text.partition("=") for text in edits.env)
    return ContainerEdits(
        env=tuple((name, value) for name, _, value in pairs),
        device_nodes=tuple(
            DeviceNode(node.host_path or node.path, node.path, node.permissions)
            for node in edits.device_nodes
        ),
        mounts=tuple(
            Mount(mount.host_path, mount.container_path, "ro" in mount.options) for mount in edits.mounts
        ),
    )


def orphans(uids: Iterable[str], known: Iterable[ClaimRef]) -> tuple[str, ...]:
    """Those that no claim has."""
    return tuple(sorted(set(uids) - {ref.uid for ref in known}))
