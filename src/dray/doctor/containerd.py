"""The container runtime: whether it is there, and whether CDI is on and looks where our files are."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.cdi.registry import read_registry
from dray.doctor.finding import Finding, cannot_look, fault, note, ok, warning
from dray.doctor.places import Places, State, Text, look_at, read_text
from dray.errors import Error
from dray.wire.connect import connect
from dray.wire.cri import RuntimeClient
from dray.wire.gen.cri_v1_pb2 import VersionRequest

_SECTIONS: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
"""Where versions 3, 2 and 1 of the file keep the runtime's settings."""
_DEFAULT_DIRS: Final = ("/etc/cdi", "/var/run/cdi")
_FILES: Final = 50


class Containerd(msgspec.Struct, frozen=True):
    """`version` is what the socket tells. `enabled` and `directories` are None where the file does not say."""

    socket: State = State.MISSING
    runtime: str = ""
    version: str = ""
    error: str = ""
    config: State = State.MISSING
    config_path: str = ""
    config_error: str = ""
    enabled: bool | None = None
    directories: tuple[str, ...] | None = None


class Cdi(msgspec.Struct, frozen=True):
    """The spec files of all directories. `broken` and `conflicts` as text, one line each."""

    directories: tuple[str, ...] = ()
    wanted: str = ""
    devices: int = 0
    broken: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


async def look_at_containerd(places: Places) -> Containerd:
    """Its file with what that imports, and its version over CRI."""
    documents, trouble = _documents(places.containerd_config)
    enabled, directories = cdi_settings(documents)
    found = Containerd(
        config=trouble.state if trouble else State.THERE,
        config_path=str(places.containerd_config),
        config_error=f"{trouble.path}: {trouble.error}" if trouble else "",
        enabled=enabled,
        directories=directories,
    )
    entry = look_at(places.containerd_socket)
    if entry.state is not State.THERE or not entry.is_writable:
        state = entry.state if entry.state is not State.THERE else State.DENIED
        return msgspec.structs.replace(found, socket=state)
    try:
        async with connect(places.containerd_socket, timeout=2.0) as channel:
            told = await RuntimeClient(channel).version(VersionRequest(), timeout=2.0)
    except Error as error:
        return msgspec.structs.replace(found, socket=State.BROKEN, error=str(error))
    return msgspec.structs.replace(
        found, socket=State.THERE, runtime=told.runtime_name, version=told.runtime_version
    )


def _documents(path: Path) -> tuple[list[Mapping[str, Any]], Text | None]:
    """The file and its imports, which win, in order; and the first that cannot be read."""
    documents: list[Mapping[str, Any]] = []
    trouble: Text | None = None
    waiting, seen = [path], {path}
    while waiting and len(documents) < _FILES:
        read = read_text(waiting.pop(0))
        document = _parsed(read)
        if isinstance(document, Text):
            trouble = trouble or document
            continue
        documents.append(document)
        for pattern in document.get("imports") or ():
            more = [one for one in _matching(Path(read.path).parent, str(pattern)) if one not in seen]
            seen.update(more)
            waiting += more
    return documents, trouble


def _parsed(read: Text) -> Mapping[str, Any] | Text:
    if read.state is not State.THERE:
        return read
    try:
        return tomllib.loads(read.text)
    except tomllib.TOMLDecodeError as error:
        return msgspec.structs.replace(read, state=State.BROKEN, error=str(error))


def _matching(beside: Path, pattern: str) -> list[Path]:
    path = beside / pattern  # an absolute pattern stays as it is
    names = look_at(path.parent, lists=True).names
    return [path.parent / name for name in names if fnmatch.fnmatchcase(name, path.name)]


def cdi_settings(documents: list[Mapping[str, Any]]) -> tuple[bool | None, tuple[str, ...] | None]:
    """`enable_cdi` and `cdi_spec_dirs`, as far as they are said; later documents win."""
    enabled: bool | None = None
    directories: tuple[str, ...] | None = None
    for document in documents:
        plugins = document.get("plugins")
        for name in reversed(_SECTIONS):
            section = plugins.get(name) if isinstance(plugins, dict) else None
            if not isinstance(section, dict):
                continue
            if isinstance(section.get("enable_cdi"), bool):
                enabled = section["enable_cdi"]
            if isinstance(section.get("cdi_spec_dirs"), list):
                directories = tuple(str(one) for one in section["cdi_spec_dirs"])
    return enabled, directories


def look_at_cdi(places: Places) -> Cdi:
    """All spec files of the usual directories and ours."""
    registry = read_registry(places.cdi_dirs)
    return Cdi(
        tuple(map(str, places.cdi_dirs)),
        str(places.cdi_dir),
        len(registry.devices),
        tuple(f"{one.path}: {str(one.error).removeprefix(f'{one.path}: ')}" for one in registry.broken),
        tuple(f"{name}: {registry.reason(name)}" for name in sorted(registry.conflicts)),
    )


def check_containerd(facts: Containerd, cdi_dir: str) -> Iterator[Finding]:
    """What keeps DRA devices out of containers."""
    yield _check_socket(facts)
    if facts.socket is State.MISSING and facts.config is State.MISSING:
        return
    if facts.config is State.DENIED:
        yield cannot_look("cdi-enabled", facts.config_path)
        return
    if facts.config is State.BROKEN:
        why = "containerd does not start with it, or ignores what it says about CDI"
        yield fault("cdi-enabled", f"{facts.config_error} cannot be read", why, "correct the file")
    if facts.runtime and facts.runtime != "containerd":
        yield note("cdi-enabled", f"the runtime is {facts.runtime}: its own settings say where CDI files are")
        return
    yield _check_enabled(facts)
    yield from _check_directories(facts, cdi_dir)


def _check_socket(facts: Containerd) -> Finding:
    if facts.socket is State.THERE:
        return ok("runtime", f"{facts.runtime} {facts.version} answers")
    if facts.socket is State.DENIED:
        return cannot_look("runtime", "containerd's socket")
    if facts.socket is State.MISSING:
        return note(
            "runtime",
            "no containerd listens in the usual place",
            fix="nothing, where another runtime is used",
        )
    return warning(
        "runtime", f"containerd does not answer: {facts.error}", "pods cannot start", "restart containerd"
    )


def _check_enabled(facts: Containerd) -> Finding:
    why = "without it a pod with a claim starts without its devices, or not at all"
    fix = f"set enable_cdi = true for the CRI plugin in {facts.config_path} and restart containerd"
    major = facts.version.lstrip("v").partition(".")[0]
    is_new = int(major) >= 2 if major.isdigit() else None
    if facts.enabled is False:
        return fault("cdi-enabled", "CDI is switched off in containerd", why, fix)
    if facts.enabled:
        return ok("cdi-enabled", "CDI is on in containerd")
    if is_new:
        return ok("cdi-enabled", "CDI is on in containerd: the default from 2.0 on")
    if is_new is False:
        return fault("cdi-enabled", f"CDI is off in containerd {facts.version}: its default", why, fix)
    return note(
        "cdi-enabled", "CDI: the file does not say, and containerd does not tell its version", why, fix
    )


def _check_directories(facts: Containerd, cdi_dir: str) -> Iterator[Finding]:
    looked = facts.directories if facts.directories is not None else _DEFAULT_DIRS
    same = {cdi_dir, cdi_dir.replace("/var/run/", "/run/"), cdi_dir.replace("/run/", "/var/run/", 1)}
    if same & set(looked):
        yield ok("cdi-directories", f"containerd looks for CDI files in {', '.join(looked)}")
        return
    why = f"the files of our devices are in {cdi_dir}"
    fix = f"add {cdi_dir} to cdi_spec_dirs in {facts.config_path}, or give the agent --cdi-dir {looked[-1] if looked else '…'}"
    yield fault(
        "cdi-directories", f"containerd looks for CDI files in {', '.join(looked) or 'no place'}", why, fix
    )


def check_cdi(facts: Cdi) -> Iterator[Finding]:
    """Broken files hide their devices; devices of two files cannot be had."""
    for text in facts.broken:
        yield warning(
            "cdi-files", text, "its devices cannot be had", "see `dray cdi validate`; correct or remove it"
        )
    for text in facts.conflicts:
        yield warning(
            "cdi-conflict",
            text,
            "nobody can tell which is meant, so neither is used",
            "remove one of the files",
        )
    if not facts.broken and not facts.conflicts:
        yield ok(
            "cdi-files", f"{facts.devices} CDI devices in {', '.join(facts.directories)}, no file is broken"
        )
