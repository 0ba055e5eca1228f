"""Device metadata in containers (KEP-5304): one file a request that tells a program inside which devices it has.

Host file `<data_dir>/dra-device-metadata/<namespace>_<claim>/<request>/metadata.json`, mounted by a CDI file of its own,
`<cdi_dir>/<driver>_metadata_<uid>_<request>.json`. KubeVirt's launcher reads it. Every call waits for the disk: in a thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.cdi.names import qualified
from dray.cdi.spec import Edits, MountEdit, Spec, SpecDevice
from dray.cdi.write import encode_spec
from dray.dra.claims.directories import meant, open_below, open_whole, put_entry, read_entry, remove_entry
from dray.dra.claims.fresh_files import put_fresh, remove_simple
from dray.dra.claims.kept_directory import KeptDirectory
from dray.dra.claims.state import Entry, Request
from dray.dra.parcels import ClaimRef
from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.runtime.files.safepath import Root, SafePath

KNOWN: Final = ("v1beta1", "v1alpha1")
"""Versions of metadata.resource.k8s.io, newest first. They hold the same."""

DIRECTORY: Final = "dra-device-metadata"
_FILE: Final = "metadata.json"
_CDI_VERSION: Final = "0.5.0"
_IN_CONTAINER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_MAX_BYTES: Final = 1 << 20
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755


def check_versions(versions: Iterable[str]) -> tuple[str, ...]:
    """Newest first, each once; none: no metadata is written. InvalidError names one that nobody knows."""
    wanted = set(versions)
    if unknown := sorted(wanted - set(KNOWN)):
        text = f"metadata version {unknown[0]!r} is not known: use some of {', '.join(KNOWN)}"
        raise InvalidError(text, field="metadata_versions")
    return tuple(version for version in KNOWN if version in wanted)


def document(driver: str, pool: str, entry: Entry, request: Request) -> dict[str, Any]:
    """What the file says, but for the version."""
    claim = entry.claim
    devices = [
        {"driver": driver, "pool": pool, "name": one.wanted.device}
        | ({"attributes": one.attributes} if one.attributes else {})
        for one in request.holdings
    ]
    meta = {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1}
    made: dict[str, Any] = {"metadata": meta}
    if entry.pod_claim:
        made["podClaimName"] = entry.pod_claim
    return made | {"requests": [{"name": request.name, "devices": devices}]}


def container_path(driver: str, entry: Entry, request: str) -> str:
    """Where a container finds it: by the claim's name, or by its name in the pod if it was made from a template."""
    kind, name = (
        ("resourceclaimtemplates", entry.pod_claim)
        if entry.pod_claim
        else ("resourceclaims", entry.claim.name)
    )
    return f"{_IN_CONTAINER}/{kind}/{name}/{request}/{driver}-metadata.json"


class MetadataFiles:
    """Those of one driver. Without `versions` nothing is written, but what is left from before is still removed."""

    def __init__(
        self, driver: str, pool: str, data_dir: Path, cdi_dir: Path, versions: Iterable[str] = ()
    ) -> None:
        self._driver, self._pool = driver, pool
        self._data_dir, self._cdi_dir = data_dir, cdi_dir
        self._versions = check_versions(versions)
        self._kept = KeptDirectory(
            data_dir / DIRECTORY, lambda: open_below(data_dir, DIRECTORY, _DIRECTORY_MODE)
        )
        self._kept_cdi = KeptDirectory(cdi_dir, lambda: open_whole(cdi_dir))
        self._kind = f"{driver}/metadata"
        self._prefix = f"{driver}_metadata_"

    def close(self) -> None:
        """Let go of the directories."""
        self._kept.close()
        self._kept_cdi.close()

    def request_id(self, uid: str, request: Request) -> str | None:
        """The CDI name of a request's file; None where there is none."""
        return qualified(self._kind, f"{uid}_{request.base_name}") if self._versions else None

    def ensure(self, entry: Entry, *, fresh: bool = False) -> bool:
        """Make the files so; False where they were so already. `fresh`: do not look, just write."""
        changed = False
        for request in entry.requests if self._versions else ():
            changed |= self._ensure_content(entry, request, fresh)
            with self._kept_cdi.opened() as directory:
                name = self._cdi_name(entry.claim.uid, request.base_name)
                changed |= _ensure(directory, name, self._cdi_content(entry, request), fresh)
        return changed

    def _ensure_content(self, entry: Entry, request: Request, fresh: bool) -> bool:
        content, way = self._content(entry, request), (_claim_name(entry.claim), request.base_name)
        if fresh:
            with self._kept.opened() as whole:
                if put_fresh(whole, way, _FILE, content, (_DIRECTORY_MODE, _FILE_MODE)):
                    return True
        with open_below(self._data_dir, "/".join((DIRECTORY, *way)), _DIRECTORY_MODE) as directory:
            return _ensure(directory, _FILE, content, fresh)

    def remove(self, ref: ClaimRef, *, requests: Iterable[str] | None, keep_directory: bool) -> None:
        """Remove a claim's files; twice is fine. `requests` None: look for them.

        `keep_directory`: another claim has the same name by now, and the directory is its.
        """
        names = None if requests is None else tuple(requests)
        try:
            self._remove_cdi(ref.uid, names)
        finally:
            if not keep_directory and not self._is_simply_removed(_claim_name(ref), names):
                self.remove_directory(_claim_name(ref))

    def _is_simply_removed(self, name: str, requests: tuple[str, ...] | None) -> bool:
        if not requests or not self._versions:
            return False
        with self._kept.opened() as directory:
            return remove_simple(directory, name, requests, _FILE)

    def _remove_cdi(self, uid: str, requests: Iterable[str] | None) -> None:
        if not os.path.lexists(self._cdi_dir):
            return
        with self._kept_cdi.opened() as directory:
            for name in self._cdi_names(directory, uid, requests):
                remove_entry(directory, name)

    def remove_directory(self, name: str) -> None:
        """Remove the directory of a claim, whatever is in it."""
        with self._opened() as directory:
            if directory is not None:
                _remove_tree(directory, name)

    def uids(self) -> tuple[str, ...]:
        """The claims that have a CDI file here, sorted."""
        if not os.path.lexists(self._cdi_dir):
            return ()
        with open_whole(self._cdi_dir) as directory:
            names = [name for name in map(meant, directory.listdir()) if name.startswith(self._prefix)]
        return tuple(sorted({name.removeprefix(self._prefix).partition("_")[0] for name in names}))

    def directories(self) -> tuple[str, ...]:
        """The names of the claims' directories, sorted."""
        with self._opened() as directory:
            return tuple(directory.listdir()) if directory is not None else ()

    def orphan_directories(self, known: Iterable[ClaimRef]) -> tuple[str, ...]:
        """Those that no claim has."""
        return tuple(sorted(set(self.directories()) - {_claim_name(ref) for ref in known}))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[SafePath | None]:
        """Our directory, or None where there is none yet: it is not made to look into it."""
        with contextlib.ExitStack() as stack:
            directory: SafePath | None = None
            with contextlib.suppress(NotFoundError):
                root = stack.enter_context(Root(self._data_dir))
                directory = stack.enter_context(root.open(DIRECTORY))
            yield directory

    def _below(self, ref: ClaimRef, request: Request) -> str:
        return f"{DIRECTORY}/{_claim_name(ref)}/{request.base_name}"

    def _cdi_name(self, uid: str, request: str) -> str:
        return f"{self._prefix}{uid}_{request}.json"

    def _cdi_names(self, directory: SafePath, uid: str, requests: Iterable[str] | None) -> Iterator[str]:
        if requests is not None:
            return (self._cdi_name(uid, request) for request in requests)
        mine = f"{self._prefix}{uid}_"
        return iter({name for name in map(meant, directory.listdir()) if name.startswith(mine)})

    def _content(self, entry: Entry, request: Request) -> bytes:
        said = document(self._driver, self._pool, entry, request)
        kinds = (
            {"kind": "DeviceMetadata", "apiVersion": f"metadata.resource.k8s.io/{version}"}
            for version in self._versions
        )
        stream = (msgspec.json.encode(kind | said, order="deterministic") for kind in kinds)
        return b"".join(msgspec.json.format(one, indent=2) + b"\n" for one in stream)

    def _cdi_content(self, entry: Entry, request: Request) -> bytes:
        host = self._data_dir.absolute() / self._below(entry.claim, request) / _FILE
        inside = container_path(self._driver, entry, request.base_name)
        mount = MountEdit(str(host), inside, ("ro", "bind"))
        device = SpecDevice(f"{entry.claim.uid}_{request.base_name}", Edits(mounts=(mount,)))
        return encode_spec(Spec(_CDI_VERSION, self._kind, (device,)), ".json")


def _claim_name(ref: ClaimRef) -> str:
    return f"{ref.namespace}_{ref.name}"


def _ensure(directory: SafePath, name: str, content: bytes, fresh: bool) -> bool:
    if not fresh and _there(directory, name) == content:
        return False
    put_entry(directory, name, content, _FILE_MODE)
    return True


def _there(directory: SafePath, name: str) -> bytes | None:
    try:
        return read_entry(directory, name, _MAX_BYTES)
    except (DeniedError, InvalidError):  # a link or something else: it is replaced itself
        return None


def _remove_tree(directory: SafePath, name: str) -> None:
    """An entry with all below it; links are removed, not followed."""
    try:
        below = directory.child(name)
    except NotFoundError:
        return
    except DeniedError:
        remove_entry(directory, name)
        return
    with below:
        if os.path.isdir(below.proc_path):  # noqa: PTH112  (the link in /proc is the descriptor)
            for inner in below.listdir():
                _remove_tree(below, inner)
    remove_entry(directory, name)
