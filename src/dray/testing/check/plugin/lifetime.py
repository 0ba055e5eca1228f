"""Rules about a kubelet that goes and comes, callers that hang, and the end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from dray.testing.check.plugin.played_kubelet import Served
from dray.testing.check.plugin.subject import PluginSubject, each
from dray.testing.check.program import wait_until
from dray.testing.check.rules import Outcome, Rule, failed, passed
from dray.testing.check.subject import cleans_up, stops
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty
from dray.wire.sockets import dial

BUSY_SHARE = 0.5
TIMES = 2
_HANGING = 4


async def hanging_client(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Connections that never say anything and streams that nobody reads, then a call."""
    await subject.devices(served)
    async with AsyncExitStack() as stack:
        for _ in range(_HANGING):
            async with asyncio.timeout(subject.pace.hanging):
                stack.enter_context(await dial(served.path))
            client = await stack.enter_async_context(subject.client(served))
            await stack.enter_async_context(client.list_and_watch(Empty()))
        async with subject.client(served, timeout=subject.pace.hanging) as client:
            await client.get_device_plugin_options(Empty())
            ids = (await subject.healthy_ids(served))[:1]
        if ids:
            await subject.allocate(served, ids, seconds=subject.pace.hanging)
    return passed(f"answered beside {2 * _HANGING} connections that hang")


async def returns(subject: PluginSubject) -> Outcome:
    """A restart as it is: all sockets wiped, kubelet.sock made anew."""
    return await _restarted(subject, wipe=True)


async def returns_to_socket(subject: PluginSubject) -> Outcome:
    """Only kubelet.sock is removed and made anew."""
    return await _restarted(subject, wipe=False)


async def returns_often(subject: PluginSubject) -> Outcome:
    """Several restarts in a row."""
    for number in range(TIMES):
        outcome = await _restarted(subject, wipe=True)
        if outcome.verdict.value == "fail":
            return failed(f"restart {number + 2}: {outcome.evidence}")
    return passed(f"{TIMES} more restarts")


async def _restarted(subject: PluginSubject, *, wipe: bool) -> Outcome:
    kubelet = subject.own.kubelet
    await kubelet.stop()
    await kubelet.start(wipe=wipe)
    started = subject.clock.monotonic()
    if reason := await subject.wait_registered():
        return failed(f"after the kubelet's restart: {reason}")
    took = subject.clock.monotonic() - started
    for served in subject.served():
        await subject.devices(served)
    return passed(f"registered again after {took:.1f} s")


async def quiet(subject: PluginSubject) -> Outcome:
    """The kubelet goes, and comes back when the rule is done."""
    own = subject.own
    await own.kubelet.stop()
    before, since = own.program.busy_seconds(), subject.clock.monotonic()
    await wait_until(lambda: bool(subject.death()), subject.pace.away, subject.clock)
    death = subject.death()
    # On a busy machine it was away for longer than it was told to be.
    away = max(subject.pace.away, subject.clock.monotonic() - since)
    share = (own.program.busy_seconds() - before) / away
    await own.kubelet.start()
    if death:
        return failed(f"while the kubelet was away {death}")
    if share > BUSY_SHARE:
        return failed(f"ran {share:.0%} of the time that the kubelet was away")
    if reason := await subject.wait_registered():
        return failed(f"after the kubelet was away for {subject.pace.away:g} s: {reason}")
    return passed(f"busy {share:.0%} of the time")


RULES: tuple[Rule[PluginSubject], ...] = (
    Rule(
        id="hanging-client",
        title="A caller that hangs does not block others",
        kubelet="keeps its stream open for ever, and may be stopped at any point of a call",
        why="Pods wait for ever.",
        check=each(hanging_client),
    ),
    Rule(
        id="returns",
        title="Registers again after the kubelet's restart",
        kubelet="removes all sockets in its directory when it starts and knows no plugin",
        why="After a restart of the kubelet the devices are gone until somebody restarts the plugin.",
        check=returns,
    ),
    Rule(
        id="returns-socket",
        title="Registers again when kubelet.sock was made anew",
        kubelet="makes kubelet.sock anew when it starts",
        why="After a restart of the kubelet the devices are gone until somebody restarts the plugin.",
        check=returns_to_socket,
    ),
    Rule(
        id="returns-often",
        title="Registers again after each of several restarts",
        kubelet="is restarted more than once in a node's life",
        why="The first restart is survived, the second is not.",
        check=returns_often,
    ),
    Rule(
        id="quiet",
        title="Waits quietly while the kubelet is away",
        kubelet="is away during an upgrade",
        why="A plugin that spins takes a core from the node, one that ends restarts in a loop.",
        check=quiet,
    ),
    Rule(
        id="stops",
        title="Ends in time after SIGTERM",
        kubelet="kills it when its grace period is over",
        why="Every update of the plugin waits for the grace period.",
        check=stops,
        ends=True,
    ),
    Rule(
        id="cleans-up",
        title="Removes its socket when it ends",
        kubelet="may connect to a socket that nobody serves",
        why="Dead sockets pile up, and a successor with the same name cannot listen.",
        check=cleans_up,
        ends=True,
        bare=True,
    ),
)
