"""The client's verbs against the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from dray.api.core import ConfigMap
from dray.api.kinds import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.api.meta import ObjectMeta
from dray.client.access import ClusterAccess, Impersonation, Secret, User
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions, PatchType, Selection, WriteOptions
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.waiting import PATIENCE

NS = "dray-client"


@pytest.fixture
async def client(apiserver: ControlPlane) -> AsyncIterator[Client]:
    """The administrator, by token, with a namespace of its own."""
    async with Client(find_access(apiserver.kubeconfig, environ={})) as entered:
        # It stays for the next test: without a controller manager nothing would finish its deletion.
        with contextlib.suppress(ConflictError):
            await entered.create(NAMESPACES, {"metadata": {"name": NS}})
        yield entered
        for item in (await entered.list(CONFIG_MAPS, Selection(NS))).items:
            await entered.delete(CONFIG_MAPS, item.metadata.name, namespace=NS)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NS}, "data": data}


def claim(name: str) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "none"}}
    return {"metadata": {"name": name, "namespace": NS}, "spec": {"devices": {"requests": [request]}}}


async def test_version_and_readiness(client: Client) -> None:
    version = await client.server_version()
    assert (version.major, version.minor) == ("1", "36")
    await client.check_ready()


async def test_life_of_an_object(client: Client) -> None:
    made = await client.create(CONFIG_MAPS, config_map("life", a="1"))
    assert made.data == {"a": "1"}
    with pytest.raises(ConflictError, match="life"):
        await client.create(CONFIG_MAPS, config_map("life"))
    raw = await client.get_raw(CONFIG_MAPS, "life", namespace=NS)
    assert raw["metadata"]["uid"] == made.metadata.uid
    raw["data"] = {"a": "2"}
    updated = await client.update(CONFIG_MAPS, raw)
    assert updated.data == {"a": "2"}
    with pytest.raises(ConflictError, match="modified"):
        await client.update(CONFIG_MAPS, raw)
    assert (await client.get(CONFIG_MAPS, "life", namespace=NS)).data == {"a": "2"}
    for wrong in (DeleteOptions(uid=str(uuid.uuid4())), DeleteOptions(resource_version="1")):
        with pytest.raises(ConflictError):
            await client.delete(CONFIG_MAPS, "life", namespace=NS, options=wrong)
    right = DeleteOptions(
        uid=updated.metadata.uid,
        resource_version=updated.metadata.resource_version,
        propagation="Background",
        grace_period=0,
    )
    await client.delete(CONFIG_MAPS, "life", namespace=NS, options=right)
    with pytest.raises(NotFoundError, match="life"):
        await client.get(CONFIG_MAPS, "life", namespace=NS)
    with pytest.raises(NotFoundError):
        await client.delete(CONFIG_MAPS, "life", namespace=NS)


async def test_typed_create_and_dry_run(client: Client) -> None:
    typed = ConfigMap(metadata=ObjectMeta(name="typed", labels={"a": "b"}), data={"x": "y"})
    tried = await client.create(CONFIG_MAPS, typed, namespace=NS, options=WriteOptions(dry_run=True))
    assert tried.metadata.uid
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "typed", namespace=NS)
    made = await client.create(CONFIG_MAPS, typed, namespace=NS)
    assert (made.metadata.labels, made.data) == ({"a": "b"}, {"x": "y"})
    await client.delete(CONFIG_MAPS, "typed", namespace=NS, options=DeleteOptions(dry_run=True))
    await client.get(CONFIG_MAPS, "typed", namespace=NS)


async def test_patches(client: Client) -> None:
    await client.create(CONFIG_MAPS, {**config_map("p", a="1", b="2")})
    merged = await client.patch(CONFIG_MAPS, "p", {"data": {"a": None, "c": "3"}}, namespace=NS)
    assert merged.data == {"b": "2", "c": "3"}
    operations = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/b"}]
    patched = await client.patch(CONFIG_MAPS, "p", operations, PatchType.JSON, namespace=NS)
    assert patched.data == {"c": "3"}
    with pytest.raises(InvalidError):
        await client.patch(CONFIG_MAPS, "p", operations, PatchType.JSON, namespace=NS)
    stale = {"metadata": {"resourceVersion": merged.metadata.resource_version}, "data": {"z": "z"}}
    with pytest.raises(ConflictError):
        await client.patch(CONFIG_MAPS, "p", stale, namespace=NS)
    applied = await client.patch(
        CONFIG_MAPS,
        "p",
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "4"}},
        PatchType.APPLY,
        namespace=NS,
        options=WriteOptions(field_manager="dray-test", force=True),
    )
    assert applied.data == {"c": "4"}


async def test_strategic_patch_merges_lists_by_key(client: Client) -> None:
    container = {"name": "one", "image": "a"}
    pod = {"metadata": {"name": "sp", "namespace": NS}, "spec": {"containers": [container]}}
    await client.create(PODS, pod)
    change = {"spec": {"containers": [{"name": "one", "image": "b"}]}, "metadata": {"labels": {"x": "y"}}}
    patched = await client.patch(PODS, "sp", change, PatchType.STRATEGIC, namespace=NS)
    assert [one.image for one in patched.spec.containers] == ["b"]
    assert patched.metadata.labels == {"x": "y"}
    await client.delete(PODS, "sp", namespace=NS, options=DeleteOptions(grace_period=0))


async def test_status_is_a_door_of_its_own(client: Client) -> None:
    made = await client.create(RESOURCE_CLAIMS, claim("st"))
    reserved = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    through_main = await client.patch(RESOURCE_CLAIMS, "st", reserved, namespace=NS)
    assert through_main.metadata.resource_version == made.metadata.resource_version
    result = {
        "devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}]}
    }
    allocated = await client.patch(
        RESOURCE_CLAIMS, "st", {"status": {"allocation": result}}, namespace=NS, subresource="status"
    )
    assert allocated.status.allocation is not None
    raw = await client.get_raw(RESOURCE_CLAIMS, "st", namespace=NS)
    raw["status"] = {}
    freed = await client.update(RESOURCE_CLAIMS, raw, subresource="status")
    assert freed.status.allocation is None
    await client.delete(RESOURCE_CLAIMS, "st", namespace=NS)


async def test_invalid_objects_tell_every_cause(client: Client) -> None:
    with pytest.raises(InvalidError, match="requests") as caught:
        await client.create(
            RESOURCE_CLAIMS, {**claim("bad"), "spec": {"devices": {"requests": [{"name": "_"}]}}}
        )
    assert len(caught.value.causes) >= 2
    with pytest.raises(InvalidError, match="unknown field"):
        await client.create(
            CONFIG_MAPS, {**config_map("strict"), "surprise": 1}, options=WriteOptions(strict=True)
        )


async def test_paging(client: Client) -> None:
    names = [f"page-{number}" for number in range(7)]
    for name in names:
        await client.create(CONFIG_MAPS, {**config_map(name), "data": {"n": name}})
    for size in (1, 2, 3, 500):
        listing = await client.list(CONFIG_MAPS, Selection(NS), page_size=size)
        assert [item.metadata.name for item in listing.items] == names
    one = await client.list_page(CONFIG_MAPS, Selection(NS), limit=3)
    assert (len(one.items), one.remaining) == (3, 4)
    rest = await client.list_page(CONFIG_MAPS, Selection(NS), limit=10, continue_token=one.continue_token)
    assert [item.metadata.name for item in (*one.items, *rest.items)] == names
    assert rest.resource_version == one.resource_version


async def test_selectors(client: Client) -> None:
    for name, label in (("s1", "x"), ("s2", "y"), ("s3", "x")):
        document = config_map(name)
        document["metadata"]["labels"] = {"kind": label}
        await client.create(CONFIG_MAPS, document)

    async def names(selection: Selection) -> list[str]:
        return [item.metadata.name for item in (await client.list(CONFIG_MAPS, selection)).items]

    assert await names(Selection(NS, labels="kind=x")) == ["s1", "s3"]
    assert await names(Selection(NS, labels="kind in (y,z)")) == ["s2"]
    assert await names(Selection(NS, fields="metadata.name=s3")) == ["s3"]
    assert await names(Selection(None, labels="kind=y")) == ["s2"]
    with pytest.raises(InvalidError):
        await names(Selection(NS, labels="!!"))


async def test_watch_sees_every_step(client: Client) -> None:
    start = (await client.list(CONFIG_MAPS, Selection(NS))).resource_version
    async with client.watch(CONFIG_MAPS, Selection(NS), resource_version=start, timeout_seconds=30) as watch:
        await client.create(CONFIG_MAPS, config_map("w", blob="x" * 900_000))
        await client.patch(CONFIG_MAPS, "w", {"data": {"blob": "y"}}, namespace=NS)
        await client.delete(CONFIG_MAPS, "w", namespace=NS)
        async with asyncio.timeout(PATIENCE):
            events = [await anext(watch) for _ in range(3)]
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [int(event.version) for event in events] == sorted({int(event.version) for event in events})


async def test_watch_gets_bookmarks_and_ends_when_the_server_says_so(client: Client) -> None:
    quiet = Selection(NS, fields="metadata.name=nobody")
    start = (await client.list(CONFIG_MAPS, quiet)).resource_version
    async with client.watch(CONFIG_MAPS, quiet, resource_version=start, timeout_seconds=5) as watch:
        made = await client.create(CONFIG_MAPS, config_map("somebody"))
        async with asyncio.timeout(PATIENCE):
            events = [event async for event in watch]
    assert {event.type for event in events} == {"BOOKMARK"}
    assert int(events[-1].version) >= int(made.metadata.resource_version)


# --- identities ---


async def test_client_certificate(apiserver: ControlPlane) -> None:
    async with Client(find_access(apiserver.certificate_kubeconfig, environ={})) as client:
        await client.list(RESOURCE_SLICES)


async def test_without_rights(apiserver: ControlPlane) -> None:
    for kubeconfig in (apiserver.driver_kubeconfig, apiserver.kubeconfig_for("nobody-in-particular")):
        async with Client(find_access(kubeconfig, environ={})) as client:
            with pytest.raises(DeniedError, match="forbidden") as caught:
                await client.list(RESOURCE_SLICES)
            assert caught.value.authenticated
            with pytest.raises(DeniedError):
                async with client.watch(RESOURCE_SLICES, resource_version="1") as watch:
                    await anext(watch)


async def test_impersonation(apiserver: ControlPlane) -> None:
    admin = find_access(apiserver.kubeconfig, environ={})
    weak = replace(admin, user=replace(admin.user, impersonate=Impersonation("jane", groups=("a", "b"))))
    async with Client(weak) as client:
        with pytest.raises(DeniedError, match='"jane"'):
            await client.list(DEVICE_CLASSES)
    strong = replace(
        admin, user=replace(admin.user, impersonate=Impersonation("jane", groups=("a", "system:masters")))
    )
    async with Client(strong) as client:
        await client.list(DEVICE_CLASSES)


async def test_unknown_token_and_nobody(apiserver: ControlPlane) -> None:
    admin = find_access(apiserver.kubeconfig, environ={})
    async with Client(replace(admin, user=User(token="not-a-token"))) as client:
        with pytest.raises(DeniedError) as caught:
            await client.list(RESOURCE_SLICES)
        assert not caught.value.authenticated
    async with Client(replace(admin, user=User())) as client:
        with pytest.raises(DeniedError):
            await client.list(RESOURCE_SLICES)


async def test_wrong_trust(apiserver: ControlPlane) -> None:
    admin = find_access(apiserver.kubeconfig, environ={})
    async with Client(replace(admin, ca=None)) as client:
        with pytest.raises(InvalidError, match="certificate-authority"):
            await client.list(RESOURCE_SLICES)
    async with Client(replace(admin, tls_server_name="elsewhere.example")) as client:
        with pytest.raises(InvalidError, match="tls-server-name"):
            await client.list(RESOURCE_SLICES)
    own = Secret("certificate-authority", path=apiserver.authority.certificate)
    async with Client(ClusterAccess(apiserver.server, user=admin.user, ca=own)) as client:
        await client.list(RESOURCE_SLICES)
    async with Client(replace(admin, ca=None, insecure=True)) as client:
        await client.list(RESOURCE_SLICES)
