"""Container logs end to end: a client asks the API server, which asks the node's kubelet, over TLS on both ways."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dray.api.core.node import KUBELET_AUTHORITY
from dray.api.kinds import NODES, PODS
from dray.apiserver.access.identity import node, reader
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.http import Request, Transport
from dray.client.kubeconfig import find_access
from dray.errors import DeniedError, Error, InvalidError, NotFoundError, UnavailableError
from dray.kubelet.runtimes.contract import LogLimits
from dray.processes.apiserver import ApiServerOptions, api_server, issue_kubeconfig
from dray.processes.kubelet import PROCESS, KubeletOptions, run_kubelet
from dray.runtime.certificates import client_certificate, server_context, serving_certificate
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running

NODE = "worker"


@dataclass
class Place:
    root: Path
    client: Client

    async def log(self, pod: str, access: Any = None, **query: str) -> str:
        request = Request(
            "GET", f"/api/v1/namespaces/default/pods/{pod}/log", tuple(query.items()), accept="*/*"
        )
        async with Transport(access or self.client.access) as transport:
            return (await transport.send(request)).decode()

    async def refused(self, pod: str, access: Any = None, **query: str) -> Error:
        with pytest.raises(Error) as caught:
            await self.log(pod, access, **query)
        return caught.value

    async def run(self, name: str, *scripts: str, node: str = NODE, restart: str = "Never") -> None:
        containers = [
            {"name": f"c{place}", "image": "none", "command": ["sh", "-c", text]}
            for place, text in enumerate(scripts)
        ]
        spec = {"restartPolicy": restart, "containers": containers} | ({"nodeName": node} if node else {})
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace="default")

    async def wait(self, name: str, phase: str) -> None:
        async with asyncio.timeout(60):
            while (await self.client.get(PODS, name, namespace="default")).status.phase != phase:
                await asyncio.sleep(0.02)

    async def port(self) -> int:
        async with asyncio.timeout(60):
            while True:
                try:
                    found = await self.client.get(NODES, NODE)
                    if port := found.status.daemon_endpoints.kubelet_endpoint.port:
                        return port
                except NotFoundError:
                    pass
                await asyncio.sleep(0.02)


@asynccontextmanager
async def place(root: Path, limits: LogLimits | None = None) -> AsyncIterator[Place]:
    async with (
        api_server(ApiServerOptions(root / "api", Address())) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        (root / "kubeconfig").write_text(issue_kubeconfig(root / "api", node(NODE)))
        options = KubeletOptions(
            node_name=NODE,
            root_dir=root / "kubelet",
            device_plugin_dir=root / "kubelet/device-plugins",
            state_dir=root / "state",
            log_dir=root / "logs",
            kubeconfig=root / "kubeconfig",
            runtime=PROCESS,
            container_logs=limits or LogLimits(),
        )
        async with running(run_kubelet(options), name="kubelet", stop_timeout=20):
            there = Place(root, client)
            await there.port()
            yield there


async def test_logs_as_people_ask_for_them(short: Path) -> None:
    async with place(short) as there:
        await there.run("done", "echo one; echo two; echo three")
        await there.run("pair", "echo from c0", "echo from c1 >&2")
        await there.wait("done", "Succeeded")
        assert await there.log("done") == "one\ntwo\nthree\n"
        assert await there.log("done", tailLines="1", container="c0") == "three\n"
        assert await there.log("done", limitBytes="5") == "one\nt"
        assert (await there.log("done", timestamps="true")).splitlines()[0].endswith("Z one")
        assert await there.log("done", follow="true") == "one\ntwo\nthree\n"
        await there.wait("pair", "Succeeded")
        assert await there.log("pair", container="c1") == "from c1\n"

        several = await there.refused("pair")
        assert isinstance(several, InvalidError)
        assert str(several) == "a container name must be specified for pod pair, choose one of: [c0 c1]"
        assert "must be a number" in str(await there.refused("done", tailLines="many"))
        assert "previous terminated container" in str(await there.refused("done", previous="true"))
        assert isinstance(await there.refused("nobody"), NotFoundError)
        await there.run("homeless", "true", node="")
        assert "the pod is on no node yet" in str(await there.refused("homeless"))
        await there.client.create(NODES, {"metadata": {"name": "ghost"}})
        await there.run("elsewhere", "true", node="ghost")
        assert "node ghost serves no logs" in str(await there.refused("elsewhere"))


async def test_a_log_is_followed_while_it_is_written(short: Path) -> None:
    async with place(short) as there:
        gate = short / "gate"
        await there.run("slow", f"echo first; until [ -e {gate} ]; do sleep 0.05; done; echo last")
        await there.wait("slow", "Running")
        request = Request(
            "GET", "/api/v1/namespaces/default/pods/slow/log", (("follow", "true"),), accept="*/*"
        )
        async with (
            asyncio.timeout(60),
            Transport(there.client.access) as transport,
            transport.stream(request, idle_timeout=20, timeout=60) as body,
        ):
            found = await body.read()
            assert found == b"first\n"
            gate.touch()
            while piece := await body.read():
                found += piece
        assert found == b"first\nlast\n"


async def test_logs_go_with_their_pod(short: Path) -> None:
    async with place(short) as there:
        await there.run("done", "echo one")
        await there.run("other", "echo two")
        await there.wait("done", "Succeeded")
        await there.wait("other", "Succeeded")
        await there.client.delete(PODS, "done", namespace="default")
        async with asyncio.timeout(60):
            while len(kept := [path.name.split("_")[1] for path in (short / "logs").iterdir()]) > 1:
                await asyncio.sleep(0.02)
        assert kept == ["other"]
        assert await there.log("other") == "two\n"


async def test_a_log_without_end_fills_no_disk_and_is_followed_all_the_same(short: Path) -> None:
    async with place(short, LogLimits(200_000, 3)) as there:
        gate = short / "gate"
        count = 20_000  # about 900 kB
        script = f"echo first; until [ -e {gate} ]; do sleep 0.05; done; seq 2 {count}"
        await there.run("long", script)
        await there.wait("long", "Running")
        request = Request(
            "GET", "/api/v1/namespaces/default/pods/long/log", (("follow", "true"),), accept="*/*"
        )
        async with (
            asyncio.timeout(60),
            Transport(there.client.access) as transport,
            transport.stream(request, idle_timeout=20, timeout=60) as body,
        ):
            found = await body.read()
            gate.touch()
            while piece := await body.read():
                found += piece
        lines = found.decode().splitlines()
        assert (lines[0], lines[-1]) == ("first", str(count))
        assert [int(one) for one in lines[1:]] == sorted(map(int, lines[1:])), "each once, in order"
        files = sorted((short / "logs").glob("default_long_*/c0/*"), key=lambda path: path.name)
        assert len(files) == 3
        assert files[0].name == "0.log"
        shown = await there.log("long")
        assert shown.splitlines()[-1] == str(count)
        assert len(shown.splitlines()) < count, "of the newest file alone, as with every kubelet"


async def test_who_may_ask_whom(short: Path) -> None:
    async with place(short) as there:
        await there.run("done", "echo secret")
        await there.wait("done", "Succeeded")
        for name, identity in (("reader", reader()), ("node", node(NODE))):
            (short / name).write_text(issue_kubeconfig(short / "api", identity))
        assert await there.log("done", find_access(short / "reader")) == "secret\n"
        assert isinstance(await there.refused("done", find_access(short / "node")), DeniedError)

        told = await there.client.get(NODES, NODE)
        host = next(one.address for one in told.status.addresses if one.type == "InternalIP")
        url = f"https://{host}:{await there.port()}/containerLogs/default/done/c0"
        pki, now = short / "api/pki", SystemClock().now()
        guest = client_certificate(pki, "guest", ("guest", "guests"), now)
        allowed = short / "api/pki/kubelet-client"
        authority = base64.b64decode(told.metadata.annotations[KUBELET_AUTHORITY]).decode()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                async with session.get(url, ssl=context(authority)) as answer:
                    await answer.read()
            async with session.get(url, ssl=context(authority, guest.certificate, guest.key)) as answer:
                assert (answer.status, await answer.text()) == (
                    403,
                    f"guest may not get nodes/proxy of {NODE}\n",
                )
            mine = context(authority, allowed.with_suffix(".crt"), allowed.with_suffix(".key"))
            async with session.get(url, ssl=mine) as answer:
                assert (answer.status, await answer.text()) == (200, "secret\n")
            async with session.get(f"{url}/more", ssl=mine) as answer:
                assert answer.status == 404

        # A kubelet that is another one than its Node says is not believed.
        other = base64.b64encode((short / "api/pki/ca.crt").read_bytes()).decode()
        await there.client.patch(NODES, NODE, {"metadata": {"annotations": {KUBELET_AUTHORITY: other}}})
        error = await there.refused("done")
        assert isinstance(error, UnavailableError)
        assert "it is not the kubelet that its Node tells of" in str(error)


async def test_kubelets_of_others_are_asked_too_and_may_break_off(tmp_path: Path) -> None:
    serving = serving_certificate(tmp_path / "pki", ("127.0.0.1",), SystemClock().now())
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path_qs)
        if "tailLines" in request.query:
            return web.Response(status=500, text="the disk is gone")
        made = web.StreamResponse()
        await made.prepare(request)
        await made.write(b"some of it\n")
        if "follow" in request.query and request.transport is not None:
            request.transport.abort()
        return made

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(serving)).start()
    async with (
        api_server(ApiServerOptions(tmp_path / "api", Address())) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        there = Place(tmp_path, client)
        await client.create(NODES, {"metadata": {"name": NODE}})
        endpoint = {"kubeletEndpoint": {"Port": runner.addresses[0][1]}}
        status = {"daemonEndpoints": endpoint, "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
        await client.patch(NODES, NODE, {"status": status}, subresource="status")
        await there.run("far", "true")
        assert await there.log("far", since="x", timestamps="true") == "some of it\n"
        assert asked == ["/containerLogs/default/far/c0?timestamps=true"]
        failed = await there.refused("far", tailLines="1")
        assert isinstance(failed, UnavailableError)
        assert str(failed) == f"the kubelet of node {NODE} refused: the disk is gone"
        cut = await there.refused("far", follow="true")
        assert isinstance(cut, UnavailableError)  # what came is not taken for all there is
        await runner.cleanup()
        gone = str(await there.refused("far"))
        assert gone.startswith(f"the kubelet of node {NODE} cannot be asked at 127.0.0.1:")
        assert gone.endswith(": connection refused")


def context(authority: str, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=authority)
    if certificate is not None:
        made.load_cert_chain(certificate, key)
    return made
