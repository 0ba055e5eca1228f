"""The load of `dray bench up`: many pods with a claim each, some of which fit nowhere, watched until nothing is open."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES
from dray.bench.scheduler_cluster import at_once
from dray.bench.scheduler_workloads import NAMESPACE, Json
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.requests import Selection
from dray.client.store import Change, Deleted
from dray.errors import UnavailableError

CLASS: Final = "gpu.nvidia.com"
_POSSIBLE, _IMPOSSIBLE = "bench-one", "bench-nine"
_TOO_MANY: Final = 9
_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True)
class Settled:
    """How it ended: `seconds` from the first request to the last answer."""

    seconds: float
    running: int
    explained: int


async def settle_pods(client: Client, count: int, impossible: int, patience: float) -> Settled:
    """Create them all and wait. UnavailableError where some neither run nor say why after `patience` seconds."""
    for name, devices in ((_POSSIBLE, 1), (_IMPOSSIBLE, _TOO_MANY)):
        await client.create(RESOURCE_CLAIM_TEMPLATES, template(name, devices))
    running, explained = set[str](), set[str]()

    def note(change: Change[Pod]) -> None:
        if not isinstance(change, Deleted):
            pod = change.new.value
            if is_settled(pod):
                (explained if is_impossible(pod) else running).add(pod.metadata.name)

    async with Informer(client, PODS, Selection(NAMESPACE)) as pods:
        pods.on_change(note)
        started = time.perf_counter()
        await at_once(client.create(PODS, one) for one in documents(count, impossible))
        while (settled := len(running) + len(explained)) < count:
            if time.perf_counter() - started > patience:
                raise UnavailableError(f"{count - settled} of {count} pods neither run nor say why")
            await asyncio.sleep(_LOOK)
        return Settled(time.perf_counter() - started, len(running), len(explained))


def is_impossible(pod: Pod) -> bool:
    """Whether it asks for more than any node has."""
    return any(one.resource_claim_template_name == _IMPOSSIBLE for one in pod.spec.resource_claims)


def is_settled(pod: Pod) -> bool:
    """Whether it runs, or, where it never will, says why not. What others say while they wait is no answer."""
    if not is_impossible(pod):
        return pod.status.phase == "Running"
    told = (one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False")
    return any("nodes are available" in one.message for one in told)


def documents(count: int, impossible: int) -> list[Json]:
    """The pods; those that fit nowhere are spread among the others."""
    return [
        _pod(f"bench-{number}", _IMPOSSIBLE if number * impossible % count < impossible else _POSSIBLE)
        for number in range(count)
    ]


def template(name: str, devices: int) -> Json:
    """For claims of so many GPUs of one node."""
    wish = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": devices}
    request = {"name": "gpu", "exactly": wish}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _pod(name: str, template_name: str) -> Json:
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template_name}],
        },
    }
