"""An embedded API server that knows KubeVirt objects and can be away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from yarl import URL

from dray.agent.config.config_place import KUBEVIRTS
from dray.api.codec import encode
from dray.api.core import Event
from dray.api.kinds import CONFIG_MAPS, EVENTS, NODES
from dray.apiserver.http.server import Address
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.tasks import wait_first
from tests.waiting import until

Json = dict[str, Any]
NODE, NS = "node-1", "default"
_DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kubevirts.kubevirt.io"},
    "spec": {
        "group": "kubevirt.io",
        "names": {"kind": "KubeVirt", "listKind": "KubeVirtList", "plural": "kubevirts", "singular": "kubevirt"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}  # fmt: skip


class AgentServer:
    """`client` is the administrator's. `access` is for agents and leads through a line that can be cut."""

    access: ClusterAccess

    def __init__(self, client: Client) -> None:
        self.client = client
        self._url = URL(client.access.server)
        self._line: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """For agents it is there, again: at the same address."""
        self._line = await asyncio.start_server(self._pass, "127.0.0.1", self._port)
        self._port = self._line.sockets[0].getsockname()[1]
        self.access = replace(self.client.access, server=f"https://127.0.0.1:{self._port}")

    async def stop(self) -> None:
        """For agents it is away, in the middle of whatever it says."""
        if self._line is not None:
            # asyncio loses a connection that it has accepted and not yet noted when the server is closed.
            for one in self._line.sockets:
                asyncio.get_running_loop().remove_reader(one.fileno())
            for _ in range(3):
                await asyncio.sleep(0)
            self._line.close()
            for writer in set(self._open):
                writer.transport.abort()
            await asyncio.wait_for(self._line.wait_closed(), 60)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        self._open.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._url.host, self._url.port)
            ends.append(far_writer)
            self._open.add(far_writer)
            if not writer.transport.is_closing():
                await wait_first(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            for one in ends:
                self._open.discard(one)
                one.transport.abort()

    async def define(self) -> None:
        """From now on it has KubeVirt objects."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await self.client.raw(Request("POST", path, body=encode(_DEFINITION)))

        async def is_served() -> bool:
            return bool((await self.client.raw(Request("GET", "/apis/kubevirt.io/v1")))["resources"])

        await until(is_served)

    async def put_kubevirt(self, configuration: Any, name: str = "kubevirt") -> None:
        """Made, or changed."""
        document = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": {"name": name, "namespace": NS},
            "spec": {"configuration": configuration, "imagePullPolicy": "IfNotPresent"},
        }
        await self._put(KUBEVIRTS, document)

    async def put_map(self, name: str = "agent", **data: str) -> None:
        """Made, or replaced."""
        await self._put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NS}, "data": data})

    async def put_node(self, **labels: str) -> None:
        await self._put(NODES, {"metadata": {"name": NODE, "labels": labels}})

    async def _put(self, resource: Any, document: Json) -> None:
        meta = document["metadata"]
        place = {"namespace": meta["namespace"]} if resource.namespaced else {}
        known = {one.metadata.name for one in (await self.client.list(resource)).items}
        if meta["name"] not in known:
            await self.client.create(resource, document)
            return
        raw = await self.client.get_raw(resource, meta["name"], **place)
        kept = {**raw["metadata"], **meta}
        await self.client.update(resource, {**raw, **document, "metadata": kept})

    async def events(self, reason: str) -> list[Event]:
        found = [one for one in (await self.client.list(EVENTS)).items if one.reason == reason]
        return sorted(found, key=lambda one: (one.involved_object.kind, one.message))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def agent_server(directory: Path) -> AsyncIterator[AgentServer]:
    options = ApiServerOptions(data_dir=directory, address=Address("127.0.0.1", 0))
    async with api_server(options) as found, Client(find_access(found.kubeconfig)) as client:
        server = AgentServer(client)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
