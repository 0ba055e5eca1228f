"""What `dray up` and `dray demo` need of a machine, and how a `dray up` that runs is doing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dray.doctor.finding import Finding, fault, note, ok, warning
from dray.doctor.places import Places, State, Text, look_at, read_text
from dray.processes.kubelet import RUNC
from dray.up.choice import API_PORT, AUTO, choose_runtime
from dray.up.place import RunningUp, Supervising, UpPlace
from dray.up.status import OK, read_status

PORTS: Final = (("the API server", API_PORT),)
_LINES: Final = 2000
_CGROUPS: Final = Path("/sys/fs/cgroup/cgroup.controllers")


class Laptop(msgspec.Struct, frozen=True):
    """`runtime` is what `dray up` would choose, and `why`. `taken` are ports that somebody listens on. `log` is the end of
    dray.log, empty where there is none."""

    is_root: bool = False
    runtime: str = ""
    why: str = ""
    taken: tuple[int, ...] = ()
    running: RunningUp | None = None
    supervising: Supervising | None = None
    parts: dict[str, str] = {}
    log: Text | None = None
    data_dir: str = ""
    has_cgroups: bool = False


async def look_at_laptop(places: Places) -> Laptop:
    """Ports are tried on 127.0.0.1 only. Each part of a `dray up` that runs is asked how it is."""
    place, chosen = UpPlace(places.data_dir), choose_runtime(AUTO)
    status = await read_status(place)
    return Laptop(
        is_root=os.geteuid() == 0,
        runtime=chosen.name,
        why=chosen.why,
        taken=tuple(port for _, port in PORTS if _is_taken(port)),
        running=status.running,
        supervising=status.supervisor,
        parts=dict(status.parts),
        log=read_text(place.log, from_end=True),
        data_dir=str(places.data_dir),
        has_cgroups=look_at(_CGROUPS).state is State.THERE,
    )


def _is_taken(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def check_laptop(facts: Laptop, *, is_laptop: bool) -> Iterator[Finding]:
    """On a node only what a `dray up` that runs there says."""
    yield from _check_running(facts)
    if is_laptop:
        yield _check_runtime(facts)
        yield from _check_ports(facts)


def _check_running(facts: Laptop) -> Iterator[Finding]:
    if facts.running is not None:
        up = facts.running
        yield ok("dray-up", f"`dray up` {up.version} runs on {facts.data_dir} (pid {up.pid}), at {up.server}")
    else:
        yield ok("dray-up", f"no `dray up` runs on {facts.data_dir}")
    for part, told in sorted(facts.parts.items()):
        if told != OK:
            why, fix = f"it says: {told}", f"see {facts.data_dir}/dray.log, and `dray status`"
            yield fault("dray-up-parts", f"the {part} of `dray up` is not well", why, fix)
    if facts.supervising is not None and facts.supervising.restarts:
        times = facts.supervising.restarts
        why = f"it died last by: {facts.supervising.last or 'nobody knows'}"
        yield warning(
            "dray-up-restarts", f"`dray up` was started again {times} times", why, "look at its log"
        )
    if bad := errors_of(facts.log.text if facts.log else ""):
        fix = f"see {facts.data_dir}/dray.log"
        yield note("dray-up-log", f"{len(bad)} errors in the last {_LINES} lines of its log", bad[-1], fix)


def errors_of(log: str) -> list[str]:
    """The lines of an error, in either format, shortened."""
    lines = log.splitlines()[-_LINES:]
    return [line[:300] for line in lines if "level=error" in line or '"level": "error"' in line]


def _check_runtime(facts: Laptop) -> Finding:
    if facts.runtime != RUNC:
        why = "pods have no images and no limits then"
        return note("containers", facts.why, why, "install runc and run as root for real containers")
    if not facts.has_cgroups:
        fix = "boot with systemd.unified_cgroup_hierarchy=1"
        return warning("containers", f"{facts.why}, and no cgroup v2", "limits do not hold", fix)
    return ok("containers", facts.why)


def _check_ports(facts: Laptop) -> Iterator[Finding]:
    if facts.running is not None:
        return
    for name, port in PORTS:
        if port in facts.taken:
            why = f"{name} of `dray up` wants it, and takes a free one instead"
            yield note("ports", f"port {port} is taken on 127.0.0.1", why, "or give --listen 127.0.0.1:PORT")
        else:
            yield ok("ports", f"port {port} is free for {name}")
