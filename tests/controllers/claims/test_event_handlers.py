"""Which looks changes of PodGroups, their pods, claims and templates ask for: Kubernetes' TestEventHandlers, by name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dray.api.limits import POD_CLAIM_NAME_ANNOTATION
from dray.api.scheduling import POD_GROUPS
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.kubeconfig import find_access
from dray.controllers.claims.controller import ClaimController, ClaimControllerConfig
from dray.controllers.claims.steps import ClaimPolicy
from dray.controllers.claims.triggers import Work
from dray.controllers.pictures import Surroundings
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.tasks import running
from tests.controllers.claims.groups import OFF, ON, group_document
from tests.controllers.objects import NS, Json, pod_document, template_document

Thing = tuple[Resource[Any], Json]


def bare(document: Json) -> Json:
    """As somebody creates it."""
    return document | {"metadata": {"name": document["metadata"]["name"], "namespace": NS}}


def in_group(name: str, group: str = "g", **kwargs: Any) -> Thing:
    document = bare(pod_document(name, **kwargs))
    document["spec"]["schedulingGroup"] = {"podGroupName": group}
    return PODS, document


GROUP: Thing = (POD_GROUPS, bare(group_document(claims={"a": "t"})))
RECORDED = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "mine"}]}
TEMPLATE: Thing = (RESOURCE_CLAIM_TEMPLATES, bare(template_document()))
CLAIM: Thing = (
    RESOURCE_CLAIMS,
    {
        "metadata": {"name": "mine", "namespace": NS, "annotations": {POD_CLAIM_NAME_ANNOTATION: "a"}},
        "spec": template_document()["spec"]["spec"],
    },
)
MEMBERS = (
    in_group("p1", claims={"a": "t"}),
    in_group("p2", claims={"a": "t"}),
    in_group("p3", "g2", claims={"a": "t"}),
    in_group("p4"),
)


@dataclass(frozen=True)
class Case:
    name: str
    expected: set[str]
    initial: tuple[Thing, ...] = ()
    created: tuple[Thing, ...] = ()
    records: bool = False
    """The group's status says which claim it has, and only then the looks count."""
    policy: ClaimPolicy = ON


CASES = [
    Case("nothing", set()),
    Case("new-podgroup-feature-disabled", set(), created=(GROUP,), policy=OFF),
    Case("new-podgroup", {"podgroup:default/g"}, created=(GROUP,)),
    Case("new-template-for-podgroup", {"podgroup:default/g"}, initial=(GROUP,), created=(TEMPLATE,)),
    Case(
        "podgroup-claim-status-update",
        {"podgroup:default/g", "pod:default/p1", "pod:default/p2"},
        initial=(GROUP, *MEMBERS),
        records=True,
    ),
    Case(
        "podgroup-claim-status-update-feature-disabled",
        set(),
        initial=(GROUP, *MEMBERS),
        records=True,
        policy=OFF,
    ),
]


class Noted:
    """The claim controller's looks, without what they lead to."""

    def __init__(self, controller: ClaimController, around: Surroundings) -> None:
        self.keys: set[str] = set()
        self._queue, self._client = controller.queue, around.client
        self._informers: list[Informer[Any]] = [
            *(around.pictures.of(one) for one in (PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)),
            around.pictures.optional(POD_GROUPS),
        ]

    async def run(self) -> None:
        await self._queue.run(self._note)

    async def _note(self, work: Work) -> None:
        self.keys.add(str(work))

    async def settled(self) -> set[str]:
        """All that came since the last time."""
        async with asyncio.timeout(60):
            for one in self._informers:
                stored = {each.key: each.version for each in (await self._client.list(one.resource)).entries}
                while {key: each.version for key, each in one.entries().items()} != stored:
                    await asyncio.sleep(0.01)
            while not self._queue.is_idle:
                await asyncio.sleep(0.01)
        found, self.keys = self.keys, set()
        return found


async def create(client: Client, *things: Thing) -> None:
    for resource, document in things:
        await client.create(resource, document)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_scenario(tmp_path: Path, case: Case) -> None:
    async with (
        api_server(ApiServerOptions(tmp_path, Address())) as server,
        Client(find_access(server.kubeconfig)) as client,
    ):
        await create(client, *case.initial)
        around = Surroundings.of(client)
        controller = ClaimController(around, ClaimControllerConfig(case.policy))
        noted = Noted(controller, around)
        async with around.pictures, running(noted.run(), name="queue"):
            with controller.following():
                await noted.settled()
                await create(client, *case.created)
                if case.records:
                    change = {"status": RECORDED}
                    await client.patch(POD_GROUPS, "g", change, namespace=NS, subresource="status")
                assert await noted.settled() == case.expected


@pytest.mark.parametrize("first", ["group", "claim"])
async def test_a_group_and_its_claim(tmp_path: Path, first: str) -> None:
    """new-podgroup-templated-claim-already-exists, new-templated-claim-for-podgroup."""
    async with (
        api_server(ApiServerOptions(tmp_path, Address())) as server,
        Client(find_access(server.kubeconfig)) as client,
    ):
        around = Surroundings.of(client)
        controller = ClaimController(around, ClaimControllerConfig(ON))
        noted = Noted(controller, around)
        async with around.pictures, running(noted.run(), name="queue"):
            with controller.following():
                group = await client.create(*GROUP)
                await client.patch(POD_GROUPS, "g", {"status": RECORDED}, namespace=NS, subresource="status")
                assert await noted.settled() == {"podgroup:default/g"}
                owner = {
                    "apiVersion": POD_GROUPS.api_version,
                    "kind": "PodGroup",
                    "name": "g",
                    "uid": group.metadata.uid,
                    "controller": True,
                }
                resource, document = CLAIM
                owned = document | {"metadata": document["metadata"] | {"ownerReferences": [owner]}}
                await client.create(resource, owned)
                assert await noted.settled() == {"claim:default/mine"}
                if first == "claim":
                    change = {"metadata": {"labels": {"seen": "again"}}}
                    await client.patch(POD_GROUPS, "g", change, namespace=NS)
                    assert await noted.settled() == set()
