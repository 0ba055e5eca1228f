from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.allocation.selector import ADMITTED, check_selector, compile_selector
from dray.api.kinds import CONFIG_MAPS, DEVICE_CLASSES
from dray.api.names import dns_subdomain
from dray.api.resource.device_class import DeviceClass
from dray.api.validation import validate
from dray.apiserver.access.identity import node, reader
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.classes import NAMESPACE, NOTES, ensure_classes, kind_class, resource_class, resource_class_name
from dray.dra.slices.view import pool_devices
from dray.errors import DeniedError, InvalidError
from dray.processes.apiserver import ApiServerOptions, api_server, issue_kubeconfig
from dray.testing.check.api_server import Place
from tests.controllers.server import Cluster, cluster
from tests.dra.pools import DRIVER, found_device

PCI = kind_class(DRIVER)
GPU = resource_class(DRIVER, "vendor.com/gpu")


@dataclass
class Server:
    client: Client
    directory: Path

    async def classes(self) -> list[str]:
        return [one.metadata.name for one in (await self.client.list(DEVICE_CLASSES)).items]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with (
        api_server(ApiServerOptions(tmp_path / "data", Address())) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        yield Server(client, tmp_path / "data")


@pytest.mark.parametrize(
    "one", [PCI, GPU, kind_class("gpu.nvidia.com"), resource_class("UP.example", "a.b/C_d")]
)
def test_a_server_takes_them(one: DeviceClass) -> None:
    assert validate(DEVICE_CLASSES, one, check_selector=check_selector) == []


@pytest.mark.parametrize(
    ("one", "matched"), [(PCI, ["gpu", "nic", "nameless"]), (GPU, ["gpu"])], ids=["kind", "resource"]
)
def test_whom_they_select(one: DeviceClass, matched: list[str]) -> None:
    """A device without a resource is no error either, which would stop the scheduler."""
    (selector,) = one.spec.selectors
    assert selector.cel is not None
    compiled = compile_selector(selector.cel.expression, ADMITTED, stored=False)
    named = {"gpu": "vendor.com/gpu", "nic": "vendor.com/nic", "nameless": ""}
    for name, resource in named.items():
        (device,) = pool_devices([found_device(name, resource=resource)], DRIVER).items
        assert compiled.matches(DRIVER, device) is (name in matched)
        assert not compiled.matches("other.example", device)


def test_names_of_classes() -> None:
    assert PCI.metadata.name == DRIVER
    assert (GPU.metadata.name, GPU.spec.extended_resource_name) == ("vendor.com--gpu", "vendor.com/gpu")
    resources = [
        "nvidia.com/gpu",
        "nvidia.com/GPU",
        "nvidia.com/g-pu",
        "nvidia.com-g/pu",
        "nvidia.com/g--pu",
        "nvidia.com--g/pu",
        "nvidia.com/g_pu",
        "nvidia.com/g.pu",
        "nvidia.com/g_.pu",
        "nvidia.com/g.-pu",
        "a/_",
        f"{'a.' * 100}b/{'c' * 63}",
    ]
    names = [resource_class_name(one) for one in resources]
    assert [(name, dns_subdomain(name)) for name in names] == [(name, []) for name in names]
    assert len(set(names)) == len(resources)
    assert names == [resource_class_name(one) for one in resources]


@pytest.mark.parametrize("resource", ["cpu", "kubernetes.io/gpu", f"vendor.com/{'x' * 60}"])
def test_a_resource_that_cannot_move(resource: str) -> None:
    with pytest.raises(InvalidError, match="resource"):
        resource_class(DRIVER, resource)


async def test_made_once(server: Server) -> None:
    found = await ensure_classes(server.client, [PCI, GPU])
    assert found.made == (PCI.metadata.name, GPU.metadata.name)
    assert await ensure_classes(server.client, [PCI, GPU]) == type(found)()
    assert (await server.client.get(DEVICE_CLASSES, GPU.metadata.name)).spec == GPU.spec


async def test_what_a_user_removed_or_edited_stays_so(server: Server) -> None:
    await ensure_classes(server.client, [PCI, GPU])
    await server.client.delete(DEVICE_CLASSES, PCI.metadata.name)
    change: dict[str, Any] = {"spec": {"selectors": []}}
    await server.client.patch(DEVICE_CLASSES, GPU.metadata.name, change)
    more = kind_class("usb.dray.internal")
    found = await ensure_classes(server.client, [PCI, GPU, more])
    assert found.made == (more.metadata.name,)
    assert await server.classes() == [more.metadata.name, GPU.metadata.name]
    assert (await server.client.get(DEVICE_CLASSES, GPU.metadata.name)).spec.selectors == ()


async def test_a_class_that_was_there_is_left_alone_also_when_it_goes(server: Server) -> None:
    await server.client.create(DEVICE_CLASSES, DeviceClass(metadata=PCI.metadata))
    assert (await ensure_classes(server.client, [PCI])).made == ()
    assert (await server.client.get(DEVICE_CLASSES, PCI.metadata.name)).spec.selectors == ()
    await server.client.delete(DEVICE_CLASSES, PCI.metadata.name)
    assert (await ensure_classes(server.client, [PCI])).made == ()


async def test_many_nodes_at_once(server: Server) -> None:
    found = await asyncio.gather(*(ensure_classes(server.client, [PCI, GPU]) for _ in range(8)))
    made = [name for one in found for name in one.made]
    assert sorted(made) == sorted(await server.classes())
    notes = await server.client.get(CONFIG_MAPS, NOTES, namespace=NAMESPACE)
    assert notes.data.keys() == set(made)


@pytest.mark.parametrize("identity", [reader(), node("worker-1")], ids=["reader", "node"])
async def test_without_the_right_nothing_is_made_and_that_is_no_error(server: Server, identity: Any) -> None:
    kubeconfig = server.directory / "other.kubeconfig"
    kubeconfig.write_text(issue_kubeconfig(server.directory, identity))
    async with Client(find_access(kubeconfig)) as client:
        found = await ensure_classes(client, [PCI])
    assert found.denied
    assert found.made == ()
    assert await server.classes() == []


async def test_where_nothing_can_be_noted_nothing_is_made(tmp_path: Path) -> None:
    """Else a class that a user removes would come back."""
    async with cluster(tmp_path) as (api, client):

        def deny(method: str, place: Place, is_done: bool) -> None:
            if place.resource is CONFIG_MAPS:
                raise DeniedError("user may not create configmaps")

        api.fails = deny
        assert (await ensure_classes(client, [PCI])).denied
        assert api.every(DEVICE_CLASSES) == []


async def test_a_crash_between_the_class_and_the_note(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):

        def crash(method: str, place: Place, is_done: bool) -> None:
            if place.resource is DEVICE_CLASSES and is_done:
                raise InvalidError("the connection is lost")

        api.fails = crash
        with pytest.raises(InvalidError):
            await ensure_classes(client, [PCI])
        api.fails = None
        assert (await ensure_classes(client, [PCI])).made == ()
        await api.remove(DEVICE_CLASSES, PCI.metadata.name)
        assert (await ensure_classes(client, [PCI])).made == ()


class Older(Cluster):
    """Knows no extended resources."""

    async def create(self, place: Place, document: dict[str, Any]) -> dict[str, Any]:
        document.get("spec", {}).pop("extendedResourceName", None)
        return await super().create(place, document)


async def test_a_server_that_drops_the_extended_resource_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path, Older) as (_, client):
        found = await ensure_classes(client, [PCI, GPU])
        assert found.without_resource == (GPU.metadata.name,)
