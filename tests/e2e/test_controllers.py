"""Dray's controllers against the real API server, with nobody else's controllers and no scheduler beside them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from dray.api.core import Pod
from dray.api.kinds import (
    DEVICE_TAINT_RULES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from dray.api.limits import CLAIM_FINALIZER, POD_CLAIM_NAME_ANNOTATION
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions, Selection
from dray.controllers.claims.controller import ClaimController, claim_controller
from dray.controllers.node_taints import node_taint_controller
from dray.controllers.nodes import NodeConfig, node_controller
from dray.controllers.pod_gc import PodGcConfig, pod_gc
from dray.controllers.taints.controller import taint_controller
from dray.errors import ConflictError
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.waiting import until, wait_until

NS = "dray-controllers"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {
    "metadata": {"name": "t", "namespace": NS},
    "spec": {"metadata": {"labels": {"team": "blue"}}, "spec": SPEC},
}
SERVICE_ACCOUNT = Request(
    "POST",
    f"/api/v1/namespaces/{NS}/serviceaccounts",
    body=b'{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}',
)
"""Pods need one, and without the controller manager no namespace has it."""
NOW = DeleteOptions(grace_period=0)


@pytest.fixture
async def client(apiserver: ControlPlane) -> AsyncIterator[Client]:
    """The administrator, with a namespace and a template; pods and claims are removed afterwards."""
    async with Client(find_access(apiserver.kubeconfig, environ={})) as entered:
        for create in (
            lambda: entered.create(NAMESPACES, {"metadata": {"name": NS}}),
            lambda: entered.raw(SERVICE_ACCOUNT),
            lambda: entered.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE),
        ):
            with contextlib.suppress(ConflictError):
                await create()
        yield entered
        for pod in (await entered.list(PODS, Selection(NS))).items:
            await entered.delete(PODS, pod.metadata.name, namespace=NS, options=NOW)
        for claim in (await entered.list(RESOURCE_CLAIMS, Selection(NS))).items:
            change = {"metadata": {"finalizers": None}}
            await entered.patch(RESOURCE_CLAIMS, claim.metadata.name, change, namespace=NS)
            await entered.delete(RESOURCE_CLAIMS, claim.metadata.name, namespace=NS)


def pod_document(name: str, *entries: str, **spec: Any) -> dict[str, Any]:
    claims = [{"name": entry, "resourceClaimTemplateName": "t"} for entry in entries]
    container = {
        "name": "c",
        "image": "none",
        "resources": {"claims": [{"name": entry} for entry in entries]},
    }
    return {
        "metadata": {"name": name, "namespace": NS},
        "spec": {"containers": [container], "resourceClaims": claims, "schedulerName": "nobody", **spec},
    }


async def claims(client: Client) -> tuple[ResourceClaim, ...]:
    return (await client.list(RESOURCE_CLAIMS, Selection(NS))).items


async def recorded(client: Client, name: str, count: int = 1) -> Pod | None:
    pod = await client.get(PODS, name, namespace=NS)
    return pod if len(pod.status.resource_claim_statuses) == count else None


async def allocate(client: Client, claim: str, *users: Pod) -> ResourceClaim:
    """What a scheduler writes."""
    change = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
    await client.patch(RESOURCE_CLAIMS, claim, change, namespace=NS)
    result = {"request": "r", "driver": "d.example", "pool": "n", "device": "g0"}
    reserved = [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in users]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved or None}
    return await client.patch(RESOURCE_CLAIMS, claim, {"status": status}, namespace=NS, subresource="status")


async def is_freed(client: Client, name: str) -> bool:
    claim = await client.get(RESOURCE_CLAIMS, name, namespace=NS)
    return claim.status.allocation is None and not claim.metadata.finalizers


async def caught_up(client: Client, controller: ClaimController) -> None:
    """Until it has looked at all that was written so far: a claim that nobody wants comes after it, and is freed."""
    await client.create(RESOURCE_CLAIMS, {"metadata": {"name": "later", "namespace": NS}, "spec": SPEC})
    await allocate(client, "later")
    await until(lambda: is_freed(client, "later"))
    await client.delete(RESOURCE_CLAIMS, "later", namespace=NS)
    await wait_until(lambda: controller.queue.is_idle)


async def test_a_pod_gets_its_claims_and_the_server_takes_them_unchanged(client: Client) -> None:
    async with claim_controller(client):
        await client.create(PODS, pod_document("two", "gpu", "nic"))
        pod = await until(lambda: recorded(client, "two", 2))
        names = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        found = {one.metadata.annotations[POD_CLAIM_NAME_ANNOTATION]: one for one in await claims(client)}
        assert {entry: one.metadata.name for entry, one in found.items()} == names
        for entry, claim in found.items():
            assert claim.metadata.generate_name == f"two-{entry}-"
            assert claim.metadata.name.startswith(claim.metadata.generate_name)
            assert claim.metadata.labels == {"team": "blue"}
            (owner,) = claim.metadata.owner_references
            assert (owner.kind, owner.uid, owner.controller) == ("Pod", pod.metadata.uid, True)
        raw = await client.get_raw(PODS, "two", namespace=NS)
        managers = [
            one for one in raw["metadata"]["managedFields"] if one["manager"] == "ResourceClaimController"
        ]
        assert [(one["operation"], one.get("subresource")) for one in managers] == [("Apply", "status")]


async def test_reserved_freed_and_deleted_when_the_pod_has_ended(client: Client) -> None:
    async with claim_controller(client) as controller:
        await client.create(PODS, pod_document("ends", "gpu"))
        pod = await until(lambda: recorded(client, "ends"))
        name = pod.status.resource_claim_statuses[0].resource_claim_name or ""
        await allocate(client, name, pod)
        await caught_up(client, controller)
        (claim,) = await claims(client)
        assert [one.uid for one in claim.status.reserved_for] == [pod.metadata.uid]
        change = {"status": {"phase": "Failed"}}
        await client.patch(PODS, "ends", change, namespace=NS, subresource="status")
        await until(lambda: _gone(client))


async def _gone(client: Client) -> bool:
    return not await claims(client)


async def test_a_pod_bound_past_the_scheduler_is_let_in_and_the_shared_claim_is_freed_after_it(
    client: Client,
) -> None:
    await client.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": NS}, "spec": SPEC})
    document = pod_document("direct", nodeName="nowhere")
    document["spec"]["resourceClaims"] = [{"name": "s", "resourceClaimName": "shared"}]

    async def users() -> list[str]:
        return [one.name for one in (await claims(client))[0].status.reserved_for]

    async with claim_controller(client):
        await client.create(PODS, document)
        await allocate(client, "shared")
        assert await until(users) == ["direct"]
        await client.delete(PODS, "direct", namespace=NS, options=NOW)
        await until(lambda: is_freed(client, "shared"))
        assert await users() == []


async def test_what_a_scheduler_gave_up_is_freed_once_nobody_wants_it(client: Client) -> None:
    """The reservation was taken back, and the pod that was to come again is deleted."""
    await client.create(RESOURCE_CLAIMS, {"metadata": {"name": "given-up", "namespace": NS}, "spec": SPEC})
    document = pod_document("waits")
    document["spec"]["resourceClaims"] = [{"name": "s", "resourceClaimName": "given-up"}]

    async with claim_controller(client) as controller:
        await client.create(PODS, document)
        await allocate(client, "given-up")
        await caught_up(client, controller)
        assert not await is_freed(client, "given-up")
        await client.delete(PODS, "waits", namespace=NS, options=NOW)
        await until(lambda: is_freed(client, "given-up"))


async def test_a_deleted_pod_takes_its_claims_along(client: Client) -> None:
    async with claim_controller(client):
        await client.create(PODS, pod_document("goes", "gpu"))
        pod = await until(lambda: recorded(client, "goes"))
        name = pod.status.resource_claim_statuses[0].resource_claim_name or ""
        await allocate(client, name, pod)
        await client.delete(PODS, "goes", namespace=NS, options=NOW)
        await until(lambda: _gone(client))


async def test_a_missing_template_is_an_event(client: Client) -> None:
    document = pod_document("waits", "gpu")
    document["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "later"

    async def told() -> list[str]:
        found = (await client.list(EVENTS, Selection(NS))).items
        return [one.reason for one in found if one.involved_object.name == "waits"]

    async with claim_controller(client):
        await client.create(PODS, document)
        assert set(await until(told)) == {"FailedResourceClaimCreation"}


async def test_two_controllers_make_each_claim_once(client: Client) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(claim_controller(client))
        names = [f"many-{number}" for number in range(30)]
        for name in names:
            await client.create(PODS, pod_document(name, "gpu"))
        for name in names:
            await until(partial(recorded, client, name))
        assert len(await claims(client)) == len(names)
        for name in names:
            await client.delete(PODS, name, namespace=NS, options=NOW)
        await until(lambda: _gone(client))


async def test_a_device_taint_rule_evicts_and_reports(client: Client) -> None:
    await client.create(RESOURCE_CLAIMS, {"metadata": {"name": "tainted", "namespace": NS}, "spec": SPEC})
    document = pod_document("evicted", nodeName="nowhere")
    document["spec"]["resourceClaims"] = [{"name": "s", "resourceClaimName": "tainted"}]
    pod = await client.create(PODS, document)
    await allocate(client, "tainted", pod)
    rule = {
        "metadata": {"name": "dray-maintenance"},
        "spec": {
            "deviceSelector": {"driver": "d.example"},
            "taint": {"key": "d.example/broken", "effect": "NoExecute"},
        },
    }

    async def is_ending() -> Pod | None:
        found = await client.get(PODS, "evicted", namespace=NS)
        return found if found.metadata.deletion_timestamp is not None else None

    async def told() -> list[str]:
        found = await client.get(DEVICE_TAINT_RULES, "dray-maintenance")
        return [one.reason for one in found.status.conditions if one.type == "EvictionInProgress"]

    try:
        async with taint_controller(client):
            await client.create(DEVICE_TAINT_RULES, rule)
            ending = await until(is_ending)
            assert "DeletionByDeviceTaintManager" in [one.reason for one in ending.status.conditions]
            assert (await until(told))[0] in ("PodsPendingEviction", "NotStarted", "Completed")
    finally:
        await client.delete(DEVICE_TAINT_RULES, "dray-maintenance")


async def test_pods_of_a_node_that_never_was_are_collected(client: Client) -> None:
    await client.create(PODS, pod_document("orphan", nodeName="nowhere"))

    async def is_gone() -> bool:
        return not (await client.list(PODS, Selection(NS))).items

    async with pod_gc(client, PodGcConfig(period=0.2, quarantine=0.4)):
        await until(is_gone)


async def test_a_silent_node_is_tainted_and_its_pods_are_driven_out(client: Client) -> None:
    name = "dray-silent"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posted"}
    await client.create(NODES, {"metadata": {"name": name}, "status": {"conditions": [ready]}})
    toleration = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 1,
    }
    await client.create(PODS, pod_document("left", nodeName=name, tolerations=[toleration]))

    async def is_ending() -> bool:
        pod = await client.get(PODS, "left", namespace=NS)
        return pod.metadata.deletion_timestamp is not None

    try:
        async with node_controller(client, NodeConfig(grace=1.0, period=0.2)), node_taint_controller(client):
            await until(is_ending)
            node = await client.get(NODES, name)
            assert {one.type: one.status for one in node.status.conditions}["Ready"] == "Unknown"
            # The API server itself taints a new node as not ready; Ready True has taken that away.
            assert sorted((one.key, one.effect) for one in node.spec.taints) == [
                ("node.kubernetes.io/unreachable", "NoExecute"),
                ("node.kubernetes.io/unreachable", "NoSchedule"),
            ]
    finally:
        await client.delete(NODES, name)
