"""The road of device plugins: a pod asks for a number, the scheduler counts, and the kubelet says which ones it gets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from dray.api.core import Node
from dray.api.kinds import NODES, PODS
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.http import Request
from dray.demo.pods import NAMESPACE, pod
from dray.demo.scene import ADMIN, AGENT, KUBELET, SCHEDULER, USER, Scene
from dray.deviceplugin.held import holders
from dray.drivers.sim.config import SimConfig, SimDevices
from dray.drivers.sim.profile import SimProfile
from dray.errors import UnavailableError
from dray.kubelet.plugins_view import PATH
from dray.up.machine import MachineConfig

RESOURCE: Final = "example.com/card"
POD: Final = "hello-plugin"
_CARDS: Final = SimDevices(name="card", count=2, resource_name=RESOURCE)
_LOOK: Final = 0.02


async def offer(scene: Scene, profile: SimProfile) -> None:
    """The agent is told of two more devices while it runs; until the Node has them."""
    story = scene.story
    story.stage("A plugin registers")
    more = replace(profile, local=SimConfig(devices=(*profile.local.devices, _CARDS)))
    path = await asyncio.to_thread(MachineConfig(scene.place, "/", more).write)
    story.step(
        ADMIN,
        f"wrote {_CARDS.count} simulated cards into the agent's {path.name}: {RESOURCE}",
        "the agent follows the file; nothing is started again",
        at=scene.clock.monotonic(),
    )
    await _listed(scene)
    _, at = await scene.journal.first(NODES, lambda one: _count(one) == _CARDS.count, _of("the number"))
    why = "of all that the plugin knows of them the cluster gets a number"
    story.step(KUBELET, f"wrote {RESOURCE}: {_CARDS.count} into Node {scene.up.node}", why, at=at)


async def _listed(scene: Scene) -> None:
    """Seen at the kubelet's own page, which nobody can watch."""
    plugin, at = await _plugin(scene, 0)
    scene.story.step(
        AGENT,
        f"served a device plugin on {Path(plugin['socket']).name} and registered it ({', '.join(plugin['versions'])})",
        "Register names socket and resource; what devices there are comes later",
        at=at,
    )
    scene.story.stage("The plugin lists its devices, and the Node counts them")
    plugin, at = await _plugin(scene, _CARDS.count)
    healthy = plugin["healthy"]
    scene.story.step(
        KUBELET, f"heard of {healthy} healthy devices", "ListAndWatch tells every change as it comes", at=at
    )


async def _plugin(scene: Scene, healthy: int) -> tuple[dict[str, Any], float]:
    """The plugin once it has so many healthy devices, and when that was seen."""
    end = scene.clock.monotonic() + scene.journal.patience
    async with Client(ClusterAccess(scene.up.metrics["kubelet"]), clock=scene.clock) as kubelet:
        while scene.clock.monotonic() < end:
            for one in (await kubelet.raw(Request("GET", PATH)))["plugins"]:
                if one["name"] == RESOURCE and one["state"] == "connected" and one["healthy"] >= healthy:
                    return one, scene.clock.monotonic()
            await scene.clock.sleep(_LOOK)
    raise UnavailableError(f"waited {scene.journal.patience:g} s for {_of('the device plugin')}")


def _of(what: str) -> str:
    return f"{what} of {RESOURCE}"


def _count(node: Node) -> int:
    found = node.status.allocatable.get(RESOURCE)
    return found.value() if found is not None else 0


async def ask(scene: Scene) -> None:
    """From the pod to its container, and back."""
    story, journal = scene.story, scene.journal
    story.stage("A user asks, and the scheduler counts")
    at = await scene.create(pod(POD, {"limits": {RESOURCE: "1"}}))
    story.step(USER, f"created Pod {POD} with the limit {RESOURCE}: 1", at=at)
    bound, at = await scene.bound(POD)
    why = f"{_CARDS.count} there, none in use; which one it will be is not known yet"
    story.step(SCHEDULER, f"bound pod {POD} to {bound.spec.node_name}", why, at=at)
    story.stage("The kubelet chooses, and the plugin allocates")
    ids, at = await _held(scene)
    story.step(
        KUBELET,
        f"chose {', '.join(ids)} and called Allocate",
        "the plugin answers what the container needs, and the kubelet keeps on disk who has what",
        at=at,
    )
    await scene.started(POD)
    story.stage("The pod ends, and the device is free again")
    await scene.delete(POD)
    at = await journal.gone(PODS, POD, f"the end of pod {POD}")
    why = "nobody tells the plugin: it has no call for that"
    story.step(KUBELET, f"let go of pod {POD} and its device", why, at=at)


async def _held(scene: Scene) -> tuple[list[str], float]:
    """What the pod was given, and when that was seen: asked as monitors do, for no object says it before the start."""
    end = scene.clock.monotonic() + scene.journal.patience
    while scene.clock.monotonic() < end:
        held = await holders(scene.place.kubelet) or {}
        if ids := [device for (_, device), pods in held.items() if f"{NAMESPACE}/{POD}" in pods]:
            return ids, scene.clock.monotonic()
        await scene.clock.sleep(_LOOK)
    raise UnavailableError(f"waited {scene.journal.patience:g} s for devices of pod {POD}")
