"""What survives restarts: whether the files can be read, what was set aside, and whether the ledger fits what lives."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from dray.doctor.finding import Finding, cannot_look, note, ok, warning
from dray.doctor.places import Places, State, Text, look_at, read_bytes
from dray.dra.claims.books import CHECKPOINT
from dray.inventory.holds_file import Content
from dray.inventory.ledger import Door, Hold
from dray.kubelet.claims.state_file import FILE_NAME as CLAIMS_FILE
from dray.kubelet.claims.state_file import decode as decode_claims
from dray.kubelet.devices.checkpoint import decode as decode_devices
from dray.runtime.files.checkpoint_format import Format, Unreadable
from dray.runtime.quarantine import AT_ONCE, DEATHS_FILE, PLACE, REST, Deaths
from dray.runtime.quarantine import Content as Deadly

HOLDS: Final = "holds"
KUBELET_DEVICES: Final = "kubelet_internal_checkpoint"
_OWN: Final = ("devices", HOLDS, "mdevs", "sockets", "good-config", "node-labels")
_ASIDE: Final = re.compile(r".*\.corrupt-[0-9]{8}T[0-9]{6}Z-[0-9]+")
_VERSION: Final = re.compile(rb"[^\n]*\nversion ([0-9]{1,9})\n")
_LIMIT: Final = 64 << 20
_NAMED: Final = 5


class StateFile(msgspec.Struct, frozen=True):
    """`version` is that of its content, 0 where the file has none. `error` says why it cannot be used."""

    path: str
    state: State = State.THERE
    size: int = 0
    version: int = 0
    error: str = ""


class LeftAlone(msgspec.Struct, frozen=True):
    """An object that a part leaves alone because its process ended again and again; `path` is where that is noted."""

    path: str
    object: str
    deaths: Deaths


class Kept(msgspec.Struct, frozen=True):
    """All state files of ours and of the kubelet, what was set aside, and what the ledger says is held."""

    files: tuple[StateFile, ...] = ()
    aside: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    denied: tuple[str, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()


def look_at_state(places: Places, now: datetime) -> Kept:
    """Read without the locks of who owns them: a file is replaced as a whole, so one reading is one state."""
    directories = [places.state_dir, places.device_plugin_dir, places.kubelet_dir]
    plugins = places.kubelet_dir / "plugins"
    directories += [plugins / name for name in look_at(plugins, lists=True).names]
    entries = [look_at(one, lists=True) for one in directories]
    paths = [*(places.state_dir / name for name in _OWN), *(one / CHECKPOINT for one in directories[3:])]
    paths += [places.device_plugin_dir / KUBELET_DEVICES, places.kubelet_dir / CLAIMS_FILE]
    deaths = _deaths_files(places)
    files = [_read(path) for path in (*paths, *deaths)]
    return Kept(
        tuple(one for one in files if one.state is not State.MISSING),
        tuple(f"{one.path}/{name}" for one in entries for name in one.names if _ASIDE.fullmatch(name)),
        _holds(read_bytes(places.state_dir / HOLDS, _LIMIT)),
        tuple(one.path for one in entries if one.state is State.DENIED),
        tuple(one for path in deaths for one in _left_alone(path, now)),
    )


def _deaths_files(places: Places) -> list[Path]:
    """Of all parts: each has its state in one of these directories, or right below."""
    above = [places.state_dir, places.data_dir, places.kubelet_dir, places.kubelet_dir / "plugins"]
    found = [one / name for one in above for name in ("", *look_at(one, lists=True).names)]
    return [one / PLACE / DEATHS_FILE for one in dict.fromkeys(found)]


def _left_alone(path: Path, now: datetime) -> Iterator[LeftAlone]:
    content = read_bytes(path, _LIMIT)
    try:
        deadly = Format(Deadly).decode(content) if isinstance(content, bytes) else Deadly({})
    except Unreadable:
        return
    for key, one in deadly.set_aside(now).items():
        yield LeftAlone(str(path), key, one)


def _read(path: Path) -> StateFile:
    content = read_bytes(path, _LIMIT)
    if isinstance(content, Text):
        return StateFile(content.path, content.state, error=content.error)
    match = _VERSION.match(content)
    version = int(match[1]) if match and path.name not in _FOREIGN else 0
    error = ""
    try:
        if path.name in _FOREIGN:
            _FOREIGN[path.name](content)
        else:
            Format(bytes, version or 1, max_size=_LIMIT).decode(content)
    except Unreadable as unreadable:
        error = str(unreadable)
    return StateFile(str(path), State.THERE, len(content), version, error)


_FOREIGN: Final[Mapping[str, Callable[[bytes], object]]] = {
    KUBELET_DEVICES: decode_devices,
    CLAIMS_FILE: decode_claims,
}


def _holds(content: bytes | Text) -> tuple[Hold, ...]:
    try:
        return Format(Content).decode(content).holds if isinstance(content, bytes) else ()
    except Unreadable:
        return ()


class Living(msgspec.Struct, frozen=True):
    """Who is there: None where nobody could be asked."""

    claims: frozenset[str] | None = None
    """UIDs of all claims."""
    plugin_devices: frozenset[tuple[str, str]] | None = None
    """Resource and id, as the kubelet tells them."""


def check_state(facts: Kept, living: Living) -> Iterator[Finding]:
    """Files, copies that were set aside, and the ledger against who lives."""
    for path in facts.denied:
        yield cannot_look("checkpoints", path)
    bad = [one for one in facts.files if one.error]
    for one in bad:
        if one.state is State.DENIED:
            yield cannot_look("checkpoints", one.path)
            continue
        why = "it is set aside at the next start, and rebuilt from what the kubelet and the API server tell"
        fix = f"keep a copy of {one.path} for a report, then restart its owner"
        yield warning("checkpoints", f"{one.path} cannot be used: {one.error}", why, fix)
    if not bad:
        count = len(facts.files)
        yield ok(
            "checkpoints", f"{count} state files can be read" if count else "there are no state files yet"
        )
    if facts.aside:
        names = ", ".join(facts.aside[:_NAMED]) + (" …" if len(facts.aside) > _NAMED else "")
        why = "a state file could not be used once, and was kept under this name"
        yield note("set-aside", names, why, "look at the disk and the log of that time, then remove them")
    yield from _check_left_alone(facts.left_alone)
    yield from _check_ledger(facts.holds, living)


def _check_left_alone(found: Collection[LeftAlone]) -> Iterator[Finding]:
    for one in found:
        count, until = one.deaths.count, f"{one.deaths.last + REST:%Y-%m-%d %H:%M} UTC"
        what = f"{one.object} is left alone until {until}: the process ended {count} times while it was handled, or another of its name or owner"
        fix = f"report it with `dray doctor --bundle`; {AT_ONCE}"
        yield warning("quarantine", what, f"nothing is done for it ({one.path})", fix)


def _check_ledger(holds: Collection[Hold], living: Living) -> Iterator[Finding]:
    lost = [hold for hold in holds if _is_lost(hold, living)]
    for hold in sorted(lost, key=lambda one: one.key)[:_NAMED]:
        why = "the device is not offered while the ledger has it; a running agent lets go within a minute"
        what = f"{hold.device} is held for {hold.holder}, which is gone"
        yield warning("ledger", what, why, "if the agent runs and it stays so, restart the agent")
    if len(lost) > _NAMED:
        yield note("ledger", f"and {len(lost) - _NAMED} more that are held for who is gone")
    if not lost and holds:
        asked = living.claims is not None or living.plugin_devices is not None
        text = "all their holders are there" if asked else "nobody could be asked about their holders"
        yield ok("ledger", f"{len(holds)} devices are held: {text}")


def _is_lost(hold: Hold, living: Living) -> bool:
    if hold.door is Door.DRA:
        return living.claims is not None and hold.uid not in living.claims
    devices = living.plugin_devices
    return hold.confirmed and devices is not None and (hold.resource, hold.device) not in devices
