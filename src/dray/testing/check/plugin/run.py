"""Check a device plugin, on its live socket or started privately."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dray.runtime.clock import Clock, SystemClock
from dray.runtime.tasks import running
from dray.testing.check.plugin import allocate, lifetime, listing, registration
from dray.testing.check.plugin.played_kubelet import ListStream, PlayedKubelet, Served, follow
from dray.testing.check.plugin.subject import PluginSubject, Private
from dray.testing.check.program import NODE_NAME, Program, Room, fill_in, private_room
from dray.testing.check.rules import Pace, Report, Rule, Say, apply
from dray.wire.connect import connect

RULES: tuple[Rule[PluginSubject], ...] = (
    *registration.RULES,
    *listing.RULES,
    *allocate.RULES,
    *lifetime.RULES,
)


async def check_socket(path: Path, *, pace: Pace, say: Say, clock: Clock | None = None) -> Report:
    """Only what is safe while a kubelet uses it; UnavailableError where nobody listens."""
    clock = clock or SystemClock()
    async with connect(path):
        pass
    stream = ListStream(clock.monotonic())
    subject = PluginSubject(clock=clock, pace=pace, live=Served(path.name, path, stream))
    async with running(follow(path, stream, clock), name="list"):
        return Report(f"plugin {path}", await apply(RULES, subject, say))


async def check_command(
    command: Sequence[str],
    *,
    pace: Pace,
    say: Say,
    kubeconfig: Path | None = None,
    clock: Clock | None = None,
) -> Report:
    """All rules, on a plugin that is started here and ended when this returns."""
    clock = clock or SystemClock()
    with private_room() as room:
        program = Program(fill_in(command, room.words(kubeconfig)), room, environ(room, kubeconfig), clock)
        kubelet = PlayedKubelet(room, clock)
        subject = PluginSubject(clock=clock, pace=pace, private=Private(room, program, kubelet))
        try:
            results = await apply(RULES, subject, say)
        finally:
            await program.kill()
            await kubelet.stop()
        return Report(f"plugin {command[0]}", results)


def environ(room: Room, kubeconfig: Path | None) -> dict[str, str]:
    """What the program is told beside its arguments."""
    told = {
        "NODE_NAME": NODE_NAME,
        "KUBELET_DIR": str(room.kubelet),
        "DEVICE_PLUGIN_DIR": str(room.device_plugins),
        "CDI_DIR": str(room.cdi),
    }
    return told | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
