from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions, Selection
from dray.errors import ConflictError, InvalidError, NotFoundError
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import SmallApiServer, merged, parse_path, served


@pytest.fixture
async def api() -> SmallApiServer:
    return SmallApiServer(SystemClock())


@pytest.fixture
async def client(api: SmallApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with served(api, tmp_path / "kubeconfig"), Client(find_access(tmp_path / "kubeconfig")) as client:
        yield client


def slice_document(name: str, driver: str = "d.example.com", count: int = 1) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": count}
    spec = {"driver": driver, "nodeName": "n", "pool": pool, "devices": [{"name": "d0"}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_objects_come_and_go(client: Client) -> None:
    made = await client.create(RESOURCE_SLICES, slice_document("a"))
    assert made.metadata.uid and made.metadata.generation == 1
    await client.create(RESOURCE_SLICES, slice_document("b", "other.example.com"))
    with pytest.raises(ConflictError):
        await client.create(RESOURCE_SLICES, slice_document("a"))
    found = await client.list(RESOURCE_SLICES, Selection(fields="spec.driver=d.example.com,spec.nodeName=n"))
    assert [one.metadata.name for one in found.items] == ["a"]
    await client.delete(RESOURCE_SLICES, "a")
    with pytest.raises(NotFoundError):
        await client.get(RESOURCE_SLICES, "a")


async def test_a_write_for_another_object_of_the_name_is_refused(client: Client) -> None:
    old = await client.create(RESOURCE_SLICES, slice_document("a"))
    await client.delete(RESOURCE_SLICES, "a", options=DeleteOptions(uid=old.metadata.uid))
    new = await client.create(RESOURCE_SLICES, slice_document("a"))
    with pytest.raises(ConflictError, match="another object has the name"):
        await client.delete(RESOURCE_SLICES, "a", options=DeleteOptions(uid=old.metadata.uid))
    with pytest.raises(ConflictError, match="another object has the name"):
        await client.patch(RESOURCE_SLICES, "a", {"metadata": {"uid": old.metadata.uid}})
    assert (await client.get(RESOURCE_SLICES, "a")).metadata.uid == new.metadata.uid


async def test_names_are_generated(client: Client) -> None:
    document = slice_document("")
    document["metadata"] = {"generateName": "n-"}
    made = await client.create(RESOURCE_SLICES, document)
    assert made.metadata.name.startswith("n-") and len(made.metadata.name) == 7


async def test_what_is_invalid_is_refused_and_kept(api: SmallApiServer, client: Client) -> None:
    with pytest.raises(InvalidError, match="resourceSliceCount"):
        await client.create(RESOURCE_SLICES, slice_document("a", count=0))
    assert len(api.refused) == 1 and "resourceSliceCount" in api.refused[0]


async def test_an_update_from_an_old_version_is_refused(client: Client) -> None:
    await client.create(RESOURCE_SLICES, slice_document("a"))
    old = await client.get_raw(RESOURCE_SLICES, "a")
    new = await client.get_raw(RESOURCE_SLICES, "a")
    new["spec"]["devices"].append({"name": "d1"})
    changed = await client.update(RESOURCE_SLICES, new)
    assert changed.metadata.generation == 2
    with pytest.raises(ConflictError):
        await client.update(RESOURCE_SLICES, old)


async def test_status_has_a_door_of_its_own(client: Client) -> None:
    wanted = {"name": "r", "exactly": {"deviceClassName": "k"}}
    document = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [wanted]}}}
    await client.create(RESOURCE_CLAIMS, document, namespace="ns")
    stored = await client.get_raw(RESOURCE_CLAIMS, "c", namespace="ns")
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "d0"}
    stored["status"] = {"allocation": {"devices": {"results": [result]}}}
    await client.update(RESOURCE_CLAIMS, stored)
    assert (await client.get(RESOURCE_CLAIMS, "c", namespace="ns")).status.allocation is None
    stored = await client.get_raw(RESOURCE_CLAIMS, "c", namespace="ns")
    stored["status"] = {"allocation": {"devices": {"results": [result]}}}
    await client.update(RESOURCE_CLAIMS, stored, subresource="status")
    assert (await client.get(RESOURCE_CLAIMS, "c", namespace="ns")).status.allocation is not None


async def test_a_merge_patch(client: Client) -> None:
    await client.create(NODES, {"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}})
    patched = await client.patch(NODES, "n", {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert patched.metadata.labels == {"b": "2", "c": "3"}


async def test_a_watch_tells_what_happens_after_its_version(client: Client) -> None:
    await client.create(RESOURCE_SLICES, slice_document("a"))
    version = (await client.list(RESOURCE_SLICES)).resource_version
    async with client.watch(
        RESOURCE_SLICES, Selection(fields="spec.driver=d.example.com"), resource_version=version
    ) as watch:
        await client.create(RESOURCE_SLICES, slice_document("x", "other.example.com"))
        await client.create(RESOURCE_SLICES, slice_document("b"))
        await client.delete(RESOURCE_SLICES, "a")
        async with asyncio.timeout(60):
            seen = [str((await anext(watch)).type) for _ in range(2)]
    assert seen == ["ADDED", "DELETED"]


def test_paths() -> None:
    place = parse_path("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status")
    assert (place.resource, place.namespace, place.name, place.subresource) == (
        RESOURCE_CLAIMS,
        "ns",
        "c",
        "status",
    )
    assert parse_path("/api/v1/nodes/n").resource is NODES
    for path in ("/", "/api/v1", "/apis/resource.k8s.io/v1beta1/resourceslices"):
        with pytest.raises(NotFoundError):
            parse_path(path)


def test_merge() -> None:
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}) == {"a": {"c": 2, "d": 3}}
