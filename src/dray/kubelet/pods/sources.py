"""Where pods come from: an API server, a directory of manifests, or files named on the command line."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from dray.api.codec import Manifest, encode, load_documents, view
from dray.api.core import Pod
from dray.api.defaults import set_defaults
from dray.api.kinds import PODS
from dray.api.meta import format_time
from dray.api.validation import validate
from dray.client.client import Client
from dray.client.reflector import Reflector
from dray.client.requests import Selection
from dray.errors import Error, InvalidError
from dray.runtime.clock import Clock
from dray.runtime.files.filewatch import FileWatch, Kind
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("kubelet.pods")

API, DIRECTORY, FILES = "api", "directory", "files"
Take = Callable[[str, Sequence[Pod]], None]
_SUFFIXES = (".yaml", ".yml", ".json")
_LIMIT = 4 << 20


async def follow_api(client: Client, node: str, take: Take) -> NoReturn:
    """The pods that are bound to this node, as an API server has them; waits for a server that is away."""
    selection = Selection(fields=f"spec.nodeName={node}")
    async with Reflector(client, PODS, selection) as pods:
        while True:
            generation = pods.generation
            take(API, [pod for pod in pods.snapshot().values() if pod.metadata.uid])
            await pods.wait_changed(generation)


async def follow_directory(directory: Path, node: str, clock: Clock, take: Take) -> NoReturn:
    """The pods in the files of a directory (an absolute path). A file that is wrong is told; its last good content counts."""
    good: dict[str, tuple[Pod, ...]] = {}
    async with FileWatch(directories=[directory], contents=True, poll_interval=20.0) as watch:
        while True:
            entries = watch.snapshot.directories[directory] or {}
            names = [
                name
                for name, entry in sorted(entries.items())
                if name.endswith(_SUFFIXES) and not name.startswith(".") and entry.kind is not Kind.DIRECTORY
            ]
            good = {name: found for name in names if (found := _file(directory / name, node, clock, good))}
            take(DIRECTORY, [pod for found in good.values() for pod in found])
            await watch.wait_changed()


def _file(path: Path, node: str, clock: Clock, good: dict[str, tuple[Pod, ...]]) -> tuple[Pod, ...]:
    try:
        return read_pods([path], node, clock)
    except Error as error:
        before = good.get(path.name, ())
        what = "its last good content stays in force" if before else "no pod comes from it"
        _log.error(f"a manifest is wrong, {what}", path=path, error=str(error))
        return before


def read_pods(paths: Iterable[Path], node: str, clock: Clock) -> tuple[Pod, ...]:
    """All pods of the files, bound to this node. InvalidError with file, line and field.

    The UID is made of what is written, so the same file is the same pod after a restart, and an edited one is another.
    """
    found: list[Pod] = []
    for path in paths:
        for manifest in load_documents(_read(path), str(path)):
            if manifest.kind != "Pod":
                raise InvalidError(
                    f"{manifest.source}: {manifest.kind or 'an object without kind'}: only Pods can be run",
                    field=manifest.source,
                )
            found.append(_pod(manifest, node, clock))
    return tuple(found)


def _pod(manifest: Manifest, node: str, clock: Clock) -> Pod:
    raw = copy.deepcopy(manifest.raw)
    raw.pop("status", None)
    metadata = raw.setdefault("metadata", {})
    metadata.setdefault("namespace", "default")
    raw.setdefault("spec", {})["nodeName"] = node
    digest = hashlib.sha256(encode(raw)).hexdigest()
    metadata["uid"] = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    metadata["creationTimestamp"] = format_time(clock.now())
    set_defaults(PODS, raw, clock.now())
    pod = view(raw, Pod)
    faults = validate(PODS, pod)
    if faults:
        told = "; ".join(str(fault) for fault in faults)
        raise InvalidError(f"{manifest.source}: {told}", field=manifest.source, causes=tuple(faults))
    return pod


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise from_os_error(error, "read", str(path)) from error
    if len(data) > _LIMIT:
        raise InvalidError(f"{path}: has more than {_LIMIT >> 20} MiB; is it a manifest?", field=str(path))
    return data
