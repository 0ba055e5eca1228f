"""Wait until pods are ready or objects are gone, within a time; who is late is told with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import PODS, Resource
from dray.cli.cluster import Asked
from dray.cli.views.claim_words import why_pod_waits
from dray.errors import ConflictError, NotFoundError, UnavailableError
from dray.runtime.clock import Clock, SystemClock

_FIRST, _MOST = 0.05, 1.0
"""Seconds between two looks: short at first, for most things are quick."""

Place = tuple[str, str]
"""Namespace and name."""


async def wait_pods(asked: Asked, pods: Sequence[Place], seconds: float, clock: Clock | None = None) -> None:
    """Until each is ready or has succeeded. ConflictError: one failed. UnavailableError: one is late, and why."""
    clock = clock or SystemClock()
    end = clock.monotonic() + seconds
    for namespace, name in pods:
        pause = _FIRST
        while True:
            pod = await asked.client.get(PODS, name, namespace=namespace)
            if is_there(pod):
                break
            if pod.status.phase == "Failed":
                why = pod.status.message or pod.status.reason or f"`dray logs {name}` shows what it wrote"
                raise ConflictError(f"pod/{name} failed: {why}")
            if clock.monotonic() >= end:
                why = why_pod_waits(pod) or "it has not started"
                raise UnavailableError(
                    f"pod/{name} is not ready after {seconds:g} s: {why}; `dray explain pod/{name} -n {namespace}` tells more"
                )
            asked.say(f"waiting for pod/{name}: {why_pod_waits(pod) or 'it starts'}")
            await clock.sleep(min(pause, max(0.0, end - clock.monotonic())))
            pause = min(pause * 2, _MOST)
    asked.say("")


def is_there(pod: Pod) -> bool:
    """Ready, or done."""
    if pod.status.phase == "Succeeded":
        return True
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


async def wait_gone(
    asked: Asked,
    resource: Resource[Any],
    place: Place,
    uid: str,
    seconds: float,
    clock: Clock | None = None,
) -> None:
    """Until this object is gone; another one of its name does not count. UnavailableError says what holds it up."""
    clock = clock or SystemClock()
    end = clock.monotonic() + seconds
    namespace, name = place
    pause = _FIRST
    while True:
        try:
            found = await asked.client.get_raw(resource, name, namespace=namespace or None)
        except NotFoundError:
            return
        metadata = found["metadata"]
        if metadata.get("uid") != uid:
            return
        if clock.monotonic() >= end:
            held = ", ".join(metadata.get("finalizers") or ())
            why = (
                f"its finalizers are {held}"
                if held
                else "its node has not ended it; --force does not wait for that"
            )
            raise UnavailableError(
                f"{resource.kind.lower()}/{name} is still there after {seconds:g} s: {why}"
            )
        asked.say(f"waiting until {resource.kind.lower()}/{name} is gone")
        await clock.sleep(min(pause, max(0.0, end - clock.monotonic())))
        pause = min(pause * 2, _MOST)
