"""Events of `dray kubelet` at the real API server: what `kubectl describe pod` shows."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.core import Event
from dray.api.kinds import EVENTS, NAMESPACES, NODES, PODS
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import Selection
from dray.errors import ConflictError, NotFoundError
from dray.kubelet.node.keeper import LEASE_NAMESPACE
from dray.processes.kubelet import run_kubelet
from dray.runtime.tasks import running
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.processes.kubelet_program import options
from tests.waiting import PATIENCE

NODE, NAMESPACE = "dray-events", "kubelet-events"
PROBE = {"exec": {"command": ["true"]}}


@pytest.fixture
async def client(apiserver: ControlPlane, tmp_path: Path) -> AsyncIterator[Client]:
    """With a node of our own that runs plain processes."""
    chosen = dataclasses.replace(
        options(tmp_path), node_name=NODE, manifests=None, kubeconfig=apiserver.kubeconfig
    )
    async with Client(find_access(apiserver.kubeconfig, environ={})) as entered:
        for name in (LEASE_NAMESPACE, NAMESPACE):
            with contextlib.suppress(ConflictError):
                await entered.create(NAMESPACES, {"metadata": {"name": name}})
        async with running(run_kubelet(chosen), name="kubelet", stop_timeout=20):
            yield entered
            for pod in (await entered.list(PODS, Selection(NAMESPACE))).items:
                await delete(entered, pod.metadata.name)
        await entered.delete(NODES, NODE)


async def create(client: Client, name: str, container: dict[str, Any], **spec: Any) -> None:
    body = {
        "nodeName": NODE,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none"} | container],
        **spec,
    }
    await client.create(PODS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": body})


async def delete(client: Client, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(NotFoundError):
            await client.delete(PODS, name, namespace=NAMESPACE)
            while True:
                await client.get(PODS, name, namespace=NAMESPACE)
                await asyncio.sleep(0.05)


async def wait(client: Client, pod: str, reason: str, count: int = 1) -> Event:
    """The event, once it was seen so often."""
    selection = Selection(NAMESPACE, fields=f"involvedObject.name={pod},reason={reason}")
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await client.list(EVENTS, selection)).items
            if found and found[0].count >= count:
                assert len(found) == 1, found
                return found[0]
            await asyncio.sleep(0.05)


async def test_what_happens_to_pods_is_told_by_events(client: Client, apiserver: ControlPlane) -> None:
    shell = ["sh", "-c"]
    await create(client, "lives", {"command": [*shell, "exec sleep 60"], "readinessProbe": PROBE})
    await create(client, "crashes", {"command": [*shell, "exit 1"]})
    await create(client, "big", {"resources": {"limits": {"cpu": "100k"}}})
    missing = [{"name": "c", "resourceClaimName": "missing"}]
    await create(client, "unclaimed", {"command": ["true"]}, resourceClaims=missing)
    volumes = [{"name": "v", "configMap": {"name": "missing"}}]
    await create(client, "unmounted", {"command": ["true"]}, volumes=volumes)

    started = await wait(client, "lives", "Started")
    assert (started.type, started.message, started.count) == ("Normal", "Container started", 1)
    assert started.involved_object.field_path == "spec.containers{main}"
    assert (started.source.component, started.source.host) == ("kubelet", NODE)
    assert "readinessProbe of container main" in (await wait(client, "lives", "NotSupported")).message
    rejected = await wait(client, "big", "OutOfcpu")
    assert (rejected.type, rejected.involved_object.field_path) == ("Warning", "")
    backed_off = await wait(client, "crashes", "BackOff")
    assert backed_off.message.startswith("Back-off restarting failed container main in pod crashes_")
    assert (await wait(client, "crashes", "Started", count=2)).count == 2
    prepared = await wait(client, "unclaimed", "FailedPrepareDynamicResources", count=2)
    assert prepared.message.startswith("Failed to prepare dynamic resources: prepare dynamic resources: ")
    await wait(client, "unmounted", "FailedMount", count=2)

    described = await asyncio.to_thread(
        apiserver.kubectl, "describe", "pod", "lives", "--namespace", NAMESPACE
    )
    for reason in ("Pulled", "Created", "Started", "NotSupported"):
        assert reason in described
    await delete(client, "lives")
    assert (await wait(client, "lives", "Killing")).message == "Stopping container main"
