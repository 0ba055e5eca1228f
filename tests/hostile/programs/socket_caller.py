"""Our clients that no program calls often: a kubelet's calls to a DRA driver and to a device plugin about a container, and an
agent's to pod resources.

Run as `python -m tests.hostile.programs.socket_caller DIR`, it reads `prepare VERSION SOCKET`, `plugin SOCKET` and `held KUBELET_DIR` and answers each line
with `ok` or the class of the error. With an empty line it says how many kilobytes and descriptors more than at the beginning it has.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import resource
import sys
from functools import partial
from pathlib import Path

from dray.deviceplugin.held import held_ids
from dray.deviceplugin.rivals import KubeletView
from dray.errors import Error
from dray.kubelet.claims.manager import ClaimManager
from dray.kubelet.plugins.endpoint import PluginEndpoint, Timeouts
from dray.wire.connect import connect
from dray.wire.gen.deviceplugin_v1beta1_pb2 import DevicePluginOptions
from tests.kubelet.claims.world import World, claim_of, direct, pod_of

DRIVER, SECONDS, POD_NAMES = "raw.example", 1.0, 20
MEMORY = 768 << 20


def kilobytes(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


async def prepare(world: World, manager: ClaimManager, number: int, place: str) -> str:
    """A claim, prepared and given back; one whose driver did not take it back is there still."""
    name = f"c{number}"
    version, _, path = place.partition(" ")
    pod = pod_of(name, direct(name))
    world.api.add(claim_of(name, (DRIVER,), (name,)))
    await manager.drivers.register(DRIVER, path, [version])
    outcome = "ok"
    for call in (manager.prepare, manager.unprepare):
        try:
            await call(pod)
        except Error as error:
            assert "\n" not in str(error)
            outcome = type(error).__name__
    await manager.drivers.deregister(DRIVER, path)
    return outcome


async def plugin(path: Path) -> str:
    """All that is asked before a container starts, each whatever became of the one before."""
    outcome = "ok"
    try:
        async with connect(path, timeout=SECONDS) as channel:
            times = Timeouts(SECONDS, SECONDS, SECONDS, SECONDS)
            endpoint = PluginEndpoint("raw.example/x", channel, DevicePluginOptions(), times)
            for call in (
                partial(endpoint.preferred, ["a", "b"], ["a"], 1),
                partial(endpoint.allocate, ["a"]),
                partial(endpoint.pre_start, ["a"]),
            ):
                try:
                    await call()
                except Error as error:
                    outcome = type(error).__name__
    except Error as error:
        outcome = type(error).__name__
    return outcome


async def held(kubelet_dir: Path) -> str:
    answers = (await held_ids(kubelet_dir, SECONDS), await KubeletView(kubelet_dir, SECONDS).healthy())
    return "no answer" if answers == (None, None) else "ok"


async def main(root: Path) -> None:
    world = World(root / "state", call_timeout=SECONDS, ready=False)  # nothing is tried again by itself
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    calm = kilobytes("VmRSS"), len(os.listdir("/proc/self/fd"))
    most = kilobytes("VmSize") * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    async with world.running() as manager:
        for number in itertools.count():
            line = (await lines.readline()).decode()
            if not line:
                break
            kind, _, place = line.strip().partition(" ")
            if kind == "prepare":
                print(await prepare(world, manager, number % POD_NAMES, place), flush=True)
            elif kind == "plugin":
                print(await plugin(Path(place)), flush=True)
            elif kind == "held":
                print(await held(Path(place)), flush=True)
            else:
                now = kilobytes("VmHWM"), len(os.listdir("/proc/self/fd"))
                print(now[0] - calm[0], now[1] - calm[1], flush=True)
    with world.manager():
        pass  # what was kept can be read again


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
