"""Device metadata in containers (KEP-5304): one file a request that tells a program inside which devices it has.

Host file `<cdi_dir>/<driver>_metadata/<uid>_<request>.json`, mounted by a CDI file of its own,
`<cdi_dir>/<driver>_metadata_<uid>_<request>.json`. Both are of no use after a reboot, and CDI directories are mostly in
memory; runtimes do not look into directories below. KubeVirt's launcher reads it. Every call waits for the disk: in a
thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.cdi.names import qualified
from dray.cdi.spec import Edits, MountEdit, Spec, SpecDevice
from dray.cdi.write import encode_spec
from dray.dra.claims.directories import child, meant, open_whole, put_entry, read_entry, remove_entry
from dray.dra.claims.kept_directory import KeptDirectory
from dray.dra.claims.state import Entry, Request
from dray.errors import DeniedError, InvalidError
from dray.runtime.files.safepath import SafePath

KNOWN: Final = ("v1beta1", "v1alpha1")
"""Versions of metadata.resource.k8s.io, newest first. They hold the same."""

_CDI_VERSION: Final = "0.5.0"
_IN_CONTAINER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_MAX_BYTES: Final = 1 << 20
_MODE, _DIRECTORY_MODE = 0o644, 0o755


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

    def __init__(self, driver: str, pool: str, cdi_dir: Path, versions: Iterable[str] = ()) -> None:
        self._driver, self._pool, self._cdi_dir = driver, pool, cdi_dir
        self._versions = check_versions(versions)
        self._kind = f"{driver}/metadata"
        self._prefix = f"{driver}_metadata_"
        self._directory = cdi_dir / f"{driver}_metadata"
        self._kept = KeptDirectory(self._directory, lambda: _open(self._directory))
        self._kept_cdi = KeptDirectory(cdi_dir, lambda: open_whole(cdi_dir))

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
            name = _name(entry.claim.uid, request.base_name)
            with self._kept.opened() as directory:
                changed |= _ensure(directory, name, self._content(entry, request), fresh)
            with self._kept_cdi.opened() as directory:
                changed |= _ensure(
                    directory, f"{self._prefix}{name}", self._cdi_content(entry, request), fresh
                )
        return changed

    def remove(self, uid: str, *, requests: Iterable[str] | None) -> None:
        """Remove a claim's files; twice is fine. `requests` None: look for them."""
        names = None if requests is None else [_name(uid, one) for one in requests]
        if os.path.lexists(self._cdi_dir):
            with self._kept_cdi.opened() as directory:
                _remove(directory, self._prefix, uid, names)
        if os.path.lexists(self._directory):
            with self._kept.opened() as directory:
                _remove(directory, "", uid, names)

    def uids(self) -> tuple[str, ...]:
        """The claims that have a file here, whole or half written, sorted."""
        found: set[str] = set()
        if os.path.lexists(self._cdi_dir):
            with self._kept_cdi.opened() as directory:
                found |= _uids(directory, self._prefix)
        if os.path.lexists(self._directory):
            with self._kept.opened() as directory:
                found |= _uids(directory, "")
        return tuple(sorted(found))

    def _content(self, entry: Entry, request: Request) -> bytes:
        said = document(self._driver, self._pool, entry, request)
        kinds = (
            {"kind": "DeviceMetadata", "apiVersion": f"metadata.resource.k8s.io/{version}"}
            for version in self._versions
        )
        stream = (msgspec.json.encode(kind | said, order="deterministic") for kind in kinds)
        return b"".join(msgspec.json.format(one, indent=2) + b"\n" for one in stream)

    def _cdi_content(self, entry: Entry, request: Request) -> bytes:
        host = self._directory.absolute() / _name(entry.claim.uid, request.base_name)
        inside = container_path(self._driver, entry, request.base_name)
        mount = MountEdit(str(host), inside, ("ro", "bind"))
        device = SpecDevice(f"{entry.claim.uid}_{request.base_name}", Edits(mounts=(mount,)))
        return encode_spec(Spec(_CDI_VERSION, self._kind, (device,)), ".json")


@contextmanager
def _open(path: Path) -> Iterator[SafePath]:
    """Made where it is missing. DeniedError where it, or the CDI directory, is a link."""
    with open_whole(path.parent) as whole, child(whole, path.name, _DIRECTORY_MODE) as directory:
        yield directory


def _name(uid: str, request: str) -> str:
    return f"{uid}_{request}.json"


def _remove(directory: SafePath, prefix: str, uid: str, names: Iterable[str] | None) -> None:
    if names is None:
        mine = f"{prefix}{uid}_"
        found = {name for name in map(meant, directory.listdir()) if name.startswith(mine)}
    else:
        found = {f"{prefix}{name}" for name in names}
    for name in sorted(found):
        remove_entry(directory, name)


def _uids(directory: SafePath, prefix: str) -> set[str]:
    names = (name for name in map(meant, directory.listdir()) if name.startswith(prefix) and "_" in name)
    return {uid for name in names if (uid := name.removeprefix(prefix).partition("_")[0])}


def _ensure(directory: SafePath, name: str, content: bytes, fresh: bool) -> bool:
    if not fresh and _there(directory, name) == content:
        return False
    put_entry(directory, name, content, _MODE)
    return True


def _there(directory: SafePath, name: str) -> bytes | None:
    try:
        return read_entry(directory, name, _MAX_BYTES)
    except (DeniedError, InvalidError):  # a link or something else: it is replaced itself
        return None
