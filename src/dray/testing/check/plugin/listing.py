"""Rules about ListAndWatch."""

from __future__ import annotations

from collections import Counter

from dray.runtime.tasks import running
from dray.testing.check.plugin.played_kubelet import ListStream, Served, follow
from dray.testing.check.plugin.subject import PluginSubject, each
from dray.testing.check.program import wait_until
from dray.testing.check.rules import Outcome, Rule, Unready, passed
from dray.wire.deviceplugin import HEALTHY, UNHEALTHY
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Device
from dray.wire.limits import MIB

_LIMIT = 4 * MIB
_NODES = 1024
_SHOWN = 3


async def first_list(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Within what a person would wait for a node to show its devices."""
    try:
        devices = await subject.devices(served)
    except Unready as reason:
        return [str(reason)]
    return passed(f"{len(devices)} devices after {served.stream.first_after or 0:.2f} s")


async def ids(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Invalid UTF-8 never gets here: such a list cannot be read at all."""
    counts = Counter(one.ID for one in await subject.devices(served))
    twice = sorted(name for name, count in counts.items() if count > 1 and name)
    faults = [f"{_shown(twice)} listed more than once"] if twice else []
    if "" in counts:
        faults.append(f"{counts['']} devices without an ID")
    return faults


async def health_words(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Anything but Healthy counts as unhealthy, so a misspelt word hides a device."""
    words = Counter(one.health for one in await subject.devices(served))
    wrong = sorted(word for word in words if word not in (HEALTHY, UNHEALTHY))
    if wrong:
        return [f"{_shown(wrong)}: a kubelet knows {HEALTHY} and {UNHEALTHY}"]
    return passed(f"{words[HEALTHY]} healthy, {words[UNHEALTHY]} unhealthy")


async def numa(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """No topology at all is fine."""
    return [fault for one in await subject.devices(served) for fault in _numa_faults(one)][:_SHOWN]


def _numa_faults(device: Device) -> list[str]:
    nodes = [node.ID for node in device.topology.nodes]
    wrong = sorted(node for node in set(nodes) if not 0 <= node < _NODES)
    faults = [f"{device.ID}: NUMA node {node}" for node in wrong]
    return faults + ([f"{device.ID}: a NUMA node twice"] if len(set(nodes)) < len(nodes) else [])


async def size(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Measured as it travels."""
    await subject.devices(served)
    found = served.stream.devices.ByteSize() if served.stream.devices else 0
    if found > _LIMIT:
        return [f"{found} bytes in one message; a kubelet takes {_LIMIT}"]
    return passed(f"{found} bytes")


async def stays(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Looks at the stream that was opened at registration."""
    await subject.devices(served)
    stream = served.stream
    age = subject.clock.monotonic() - stream.opened
    await wait_until(lambda: bool(stream.ended), subject.pace.stays - age, subject.clock)
    if stream.ended:
        return [stream.ended]
    return passed(f"open for {subject.clock.monotonic() - stream.opened:.1f} s")


async def again(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """A second stream beside the first, as a new kubelet opens it while the old one's is not closed yet."""
    known = {one.ID for one in await subject.devices(served)}
    second = ListStream(subject.clock.monotonic())
    async with running(follow(served.path, second, subject.clock), name="second stream"):
        await wait_until(
            lambda: second.devices is not None or bool(second.ended), subject.pace.first_list, subject.clock
        )
    if second.devices is None:
        return [
            f"a second stream got no list: {second.ended or f'nothing within {subject.pace.first_list:g} s'}"
        ]
    missing = sorted(known - {one.ID for one in second.devices.devices})
    return [f"a second stream lacks {_shown(missing)}"] if missing else []


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more


RULES: tuple[Rule[PluginSubject], ...] = (
    Rule(
        id="list-first",
        title="The first list comes at once",
        kubelet="opens ListAndWatch right after Register",
        why="Until it comes the node has none of the devices; a list that cannot be read ends the stream.",
        check=each(first_list),
        live=True,
    ),
    Rule(
        id="list-ids",
        title="Ids are there and unique",
        kubelet="keys devices by id",
        why="Devices with one id are one device: capacity is lost.",
        check=each(ids),
        live=True,
    ),
    Rule(
        id="list-health",
        title="Health is Healthy or Unhealthy",
        kubelet="compares with the word Healthy; everything else is unhealthy",
        why="A misspelt word takes the device away.",
        check=each(health_words),
        live=True,
    ),
    Rule(
        id="list-numa",
        title="NUMA nodes are possible ones",
        kubelet="makes bit masks of them for the topology manager",
        why="A pod that asks for alignment is refused, or the hint is ignored.",
        check=each(numa),
        live=True,
    ),
    Rule(
        id="list-size",
        title="The list is below 4 MiB",
        kubelet="takes 4 MiB a message at most, gRPC's default",
        why="The stream breaks, and the kubelet does not open it again.",
        check=each(size),
        live=True,
    ),
    Rule(
        id="list-stays",
        title="The stream stays open",
        kubelet="takes its end as the plugin's end, and all devices as gone",
        why="The devices become unhealthy, and vanish after five minutes.",
        check=each(stays),
        live=True,
    ),
    Rule(
        id="list-again",
        title="Every stream begins with the whole list",
        kubelet="opens a new stream after each registration",
        why="After a restart of the kubelet the node has no devices.",
        check=each(again),
        live=True,
    ),
)
