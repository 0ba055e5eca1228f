"""The road of DRA, in six stages: a pod claims a device by what it must be, and the scheduler says which one it gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dray.agent.events import Reason
from dray.allocation.features import Features
from dray.allocation.selector_trial import try_selector
from dray.api.kinds import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import Device, ResourceSlice
from dray.demo.pods import NAMESPACE, Json, pod
from dray.demo.scene import AGENT, CONTROLLER, DRIVER, KUBELET, SCHEDULER, USER, Scene

DRIVER_NAME: Final = "sim.dray.internal"
POD: Final = "hello-claim"
_TEMPLATE: Final = "one-gpu"


def memory_of(least: str) -> str:
    """The selector for devices with so much memory."""
    return f'device.capacity["{DRIVER_NAME}"].memory.compareTo(quantity("{least}")) >= 0'


def template(name: str, selector: str) -> Json:
    """One device of the driver's class for which the selector is true."""
    exactly = {"deviceClassName": DRIVER_NAME, "selectors": [{"cel": {"expression": selector}}]}
    request = {"name": "gpu", "exactly": exactly}
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def claiming_pod(name: str, template_name: str) -> Json:
    """A pod with a claim from the template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": template_name}]
    return pod(name, {"claims": [{"name": "gpu"}]}, claims)


async def publish(scene: Scene) -> None:
    """Stages 1 and 2, which come without anybody's asking while the stack starts."""
    story, journal = scene.story, scene.journal
    story.stage("Devices are registered")
    found, at = await journal.first(
        RESOURCE_SLICES, lambda one: one.spec.driver == DRIVER_NAME, f"a ResourceSlice of {DRIVER_NAME}"
    )
    names = ", ".join(_shown(one) for one in found.spec.devices or ())
    story.step(
        AGENT,
        f"found {names}, registered the driver {DRIVER_NAME} with the kubelet, and published ResourceSlice "
        f"{found.metadata.name}",
        "everyone in the cluster can read there what the devices are",
        at=at,
    )
    story.stage("A class names them")
    known, at = await journal.first(
        DEVICE_CLASSES, lambda one: one.metadata.name == DRIVER_NAME, f"the DeviceClass {DRIVER_NAME}"
    )
    texts = " && ".join(one.cel.expression for one in known.spec.selectors if one.cel is not None)
    story.step(AGENT, f"made DeviceClass {DRIVER_NAME}", f"it means: {texts}", at=at)


def _shown(device: Device) -> str:
    model = device.attributes.get("model")
    memory = device.capacity.get("memory")
    facts = [model.string_value if model else None, str(memory.value) if memory else None]
    return f"{device.name} ({', '.join(filter(None, facts))})"


async def claim(scene: Scene) -> None:
    """Stages 3 to 6."""
    selector = memory_of("40Gi")
    made = await _ask(scene, selector)
    chosen = await _allocate(scene, made, selector)
    await _prepare(scene, made)
    await _release(scene, made, chosen)


async def _ask(scene: Scene, selector: str) -> str:
    story = scene.story
    story.stage("A user asks")
    await scene.client.create(RESOURCE_CLAIM_TEMPLATES, template(_TEMPLATE, selector), namespace=NAMESPACE)
    at = await scene.create(claiming_pod(POD, _TEMPLATE))
    story.step(
        USER,
        f"created ResourceClaimTemplate {_TEMPLATE} and Pod {POD}: one device of class {DRIVER_NAME}",
        f"it must be true that: {selector}",
        at=at,
    )
    found, at = await scene.journal.first(
        RESOURCE_CLAIMS, lambda one: _is_of(one, POD), f"a claim for pod {POD}"
    )
    name = found.metadata.name
    story.step(CONTROLLER, f"made ResourceClaim {name}", "the pod is its owner: it goes with it", at=at)
    return name


def _is_of(one: ResourceClaim, name: str) -> bool:
    return any(owner.name == name for owner in one.metadata.owner_references)


async def _allocate(scene: Scene, name: str, selector: str) -> str:
    story = scene.story
    story.stage("The scheduler allocates")
    slices = scene.journal.now(RESOURCE_SLICES)
    found, at = await scene.journal.first(
        RESOURCE_CLAIMS,
        lambda one: one.metadata.name == name and one.status.allocation,
        f"an allocation for {name}",
    )
    allocation = found.status.allocation
    chosen = ", ".join(one.device for one in allocation.devices.results) if allocation else ""
    story.step(SCHEDULER, f"chose {chosen} of {scene.up.node}", _why(slices, selector), at=at)
    bound, at = await scene.bound(POD)
    story.step(SCHEDULER, f"bound pod {POD} to {bound.spec.node_name}", "that is where the device is", at=at)
    return chosen


def _why(slices: Iterable[ResourceSlice], selector: str) -> str:
    ours = [one for one in slices if one.spec.driver == DRIVER_NAME]
    outcomes = try_selector(selector, ours, Features()).outcomes
    fit = [one.device for one in outcomes if one.match]
    return f"{len(fit)} of {len(outcomes)} devices are as asked for, and nobody has them: the first is taken"


async def _prepare(scene: Scene, name: str) -> None:
    story = scene.story
    story.stage("The device is prepared and injected")
    event, at = await scene.journal.event(name, Reason.DEVICE_PREPARED)
    why = "the kubelet asks it to before it starts the container"
    story.step(DRIVER, f"{event.message} (NodePrepareResources)", why, at=at)
    uid = next(one.metadata.uid for one in scene.journal.now(RESOURCE_CLAIMS) if one.metadata.name == name)
    for path, edits in await asyncio.to_thread(_cdi_files, scene.place.cdi, uid):
        story.step(DRIVER, f"wrote CDI file {path}", f"it says what the container gets: {edits}")
    await scene.started(POD)


def _cdi_files(directory: Path, uid: str) -> list[tuple[str, str]]:
    """Files of a claim, and what they add to its container."""
    found = []
    for path in sorted(directory.glob(f"*{uid}*.yaml")):
        document = json.loads(path.read_bytes())
        parts = [document.get("containerEdits"), *(one["containerEdits"] for one in document["devices"])]
        found.append((path.name, "; ".join(_edits([one for one in parts if one]))))
    return found


def _edits(parts: list[dict[str, Any]]) -> Iterable[str]:
    for title, key in (("environment", "env"), ("device nodes", "deviceNodes")):
        entries = [entry for part in parts for entry in part.get(key) or ()]
        if entries:
            yield f"{title} {', '.join(one if isinstance(one, str) else one['path'] for one in entries)}"


async def _release(scene: Scene, name: str, chosen: str) -> None:
    story, journal = scene.story, scene.journal
    story.stage("The pod ends, and the device is free again")
    await scene.delete(POD)
    _, at = await journal.event(name, Reason.DEVICE_RELEASED)
    why = "the kubelet has ended the container before"
    story.step(DRIVER, f"took {chosen} back (NodeUnprepareResources)", why, at=at)
    at = await journal.gone(PODS, POD, f"the end of pod {POD}")
    story.step(KUBELET, f"let go of pod {POD}", at=at)
    at = await journal.gone(RESOURCE_CLAIMS, name, f"the end of claim {name}")
    story.step(CONTROLLER, f"took back the allocation and removed ResourceClaim {name}", at=at)
