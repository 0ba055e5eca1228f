"""A real API server whose devices kube-scheduler and `dray scheduler` share, with `dray controllers --guard` between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions
from dray.client.store import Change, Deleted
from dray.errors import NotFoundError
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.part import Part
from dray.testing.kubernetes.tools import Tools
from dray.testing.settled import Picture
from tests.e2e import shared_workload as workload
from tests.e2e.controller_rights import USER, grant
from tests.oracle_scheduler.ours import World

WHOLE_DEVICES = 8
NOW = DeleteOptions(grace_period=0)
Json = dict[str, Any]


class Shared:
    """The cluster with both schedulers and the guard. `parts` by name; `bound`: pods that ever were, with their scheduler."""

    def __init__(self, plane: ControlPlane, client: Client, dice: random.Random) -> None:
        self.plane, self.client, self.dice = plane, client, dice
        self.bound: dict[str, str] = {}
        self.parts = {
            name: Part(name, argv, plane.directory)
            for name, argv in (
                ("kube-scheduler", kube_scheduler(plane)),
                ("dray-scheduler", _dray(plane.kubeconfig, "scheduler")),
                ("dray-controllers", _dray(plane.kubeconfig_for(USER), "controllers", *_guard(plane))),
            )
        }

    async def start(self, name: str, said: str = "") -> None:
        """Returns when it has logged that, this time."""
        part = self.parts[name]
        before = part.log.read_text().count(said) if said and part.log.exists() else 0
        part.start()
        async with asyncio.timeout(60):
            while said and part.log.read_text().count(said) == before:
                part.require_running()
                await asyncio.sleep(0.05)

    async def kill_guard(self) -> None:
        """SIGKILL, and a new one, which leads when the Lease of the old one has run out."""
        await asyncio.to_thread(self.parts["dray-controllers"].kill)
        await self.start("dray-controllers", "msg=guarding")

    async def fill(self, nodes: int) -> None:
        await grant(self.client)
        for one in workload.classes():
            await self.client.create(DEVICE_CLASSES, one)
        for one in workload.templates():
            await self.client.create(RESOURCE_CLAIM_TEMPLATES, one)
        for entry in (0, 1):
            for number in range(workload.SHARED):
                await self.client.create(
                    RESOURCE_CLAIMS, workload.claim(f"shared-{entry}-{number}", self.dice)
                )
        for number in range(nodes):
            name = f"node-{number}"
            await self.client.create(NODES, workload.node(name))
            await self.client.patch(NODES, name, {"spec": {"taints": None}})  # no kubelet will report
            for one in workload.slices(name, WHOLE_DEVICES):
                await self.client.create(RESOURCE_SLICES, one)

    async def add(self, number: int) -> None:
        pod, claims = workload.pod(f"p{number}", self.dice)
        for one in claims:
            await self.client.create(RESOURCE_CLAIMS, one)
        await self.client.create(PODS, pod)

    async def pods(self) -> tuple[Pod, ...]:
        return (await self.client.list(PODS)).items

    async def remove(self, pod: Pod) -> None:
        """With the claims that were made for it alone, mostly."""
        with contextlib.suppress(NotFoundError):
            await self.client.delete(PODS, pod.metadata.name, namespace=workload.NS, options=NOW)
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_name or ""
            if name.startswith("p") and self.dice.random() < 0.8:
                with contextlib.suppress(NotFoundError):
                    await self.client.delete(RESOURCE_CLAIMS, name, namespace=workload.NS)

    def see_pod(self, change: Change[Pod]) -> None:
        if not isinstance(change, Deleted) and (pod := change.new.value).spec.node_name:
            self.bound[pod.metadata.uid] = pod.spec.scheduler_name

    def refused(self) -> dict[str, int]:
        """How often the guard stood in a scheduler's way, as they log it, once for each."""
        words = {"dray-scheduler": "pod not bound", "kube-scheduler": "Error scheduling pod; retrying"}
        logs = {name: self.parts[name].log.read_text().splitlines() for name in words}
        return {
            name: sum(words[name] in line and "denied the request" in line for line in lines)
            for name, lines in logs.items()
        }

    async def wait_nobody_overlooked(self) -> None:
        """A scheduler that was refused tries again after a while, longer each time."""
        left = ["not looked yet"]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                while left := await self.overlooked():
                    await asyncio.sleep(0.3)
        assert left == []

    async def picture(self) -> Picture:
        return Picture(
            await self.pods(),
            (await self.client.list(RESOURCE_CLAIMS)).items,
            (await self.client.list(RESOURCE_SLICES)).items,
            (await self.client.list(NODES)).items,
        )

    async def raw(self, path: str) -> list[Json]:
        items: list[Json] = (await self.client.raw(Request("GET", path)))["items"]
        return items

    async def overlooked(self) -> list[str]:
        """Pods that wait although there is a node with devices for them."""
        pods = await self.raw("/api/v1/pods")
        groups = "/apis/resource.k8s.io/v1"
        state = {
            "nodes": await self.raw("/api/v1/nodes"),
            "pods": [one for one in pods if one["spec"].get("nodeName")],
            "classes": await self.raw(f"{groups}/deviceclasses"),
            "slices": await self.raw(f"{groups}/resourceslices"),
            "claims": await self.raw(f"{groups}/resourceclaims"),
            "rules": [],
            "namespaces": [{"metadata": {"name": workload.NS, "labels": {}}}],
        }
        world = World(state, datetime.now(UTC))
        return [
            f"{one['metadata']['name']} of {one['spec']['schedulerName']} fits on {found.feasible}"
            for one in pods
            if not one["spec"].get("nodeName") and (found := world.ask(one)).feasible
        ]


def kube_scheduler(plane: ControlPlane) -> list[str | Path]:
    """With a client that may ask as often as it likes; else all pods would be Dray's before it comes."""
    config = plane.directory / "kube-scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {plane.kubeconfig}, qps: 1000, burst: 1000}}\n"
        "leaderElection: {leaderElect: false}\n"
    )
    gates = plane.settings.gates
    return [plane.tools.path("kube-scheduler"), f"--config={config}", "--secure-port=0", gates]


def _dray(kubeconfig: Path, *words: str) -> list[str | Path]:
    flags = (f"--kubeconfig={kubeconfig}", "--metrics-address=none")
    return [sys.executable, "-m", "dray", *words, *flags]


def _guard(plane: ControlPlane) -> tuple[str, ...]:
    times = ("lease-duration=3", "renew-deadline=2", "retry-period=0.3")
    address = ("--guard", "--no-guard-webhook", "--guard-address=127.0.0.1:0", f"--guard-dir={plane.directory / 'guard'}")
    return (*address, *(f"--leader-elect-{one}" for one in times))


@asynccontextmanager
async def shared(tools: Tools, logs: Path, seed: int) -> AsyncIterator[Shared]:
    plane = ControlPlane(tools, save_logs=logs)
    await asyncio.to_thread(plane.__enter__)
    try:
        async with Client(find_access(plane.kubeconfig, environ={})) as client:
            found = Shared(plane, client, random.Random(seed))
            try:
                yield found
            except BaseException:
                plane.failed = True
                raise
            finally:
                for part in found.parts.values():
                    await asyncio.to_thread(part.stop)
    finally:
        await asyncio.to_thread(plane.__exit__, None, None, None)
