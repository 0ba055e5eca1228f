"""`dray controllers` beside `dray apiserver`, as processes: killed, doubled, cut off; and what they leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dray.api.kinds import LEASES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.limits import CLAIM_FINALIZER, EXTENDED_RESOURCE_CLAIM_ANNOTATION, POD_CLAIM_NAME_ANNOTATION
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig
from dray.client.lease import LeaseTimes
from dray.client.requests import DeleteOptions
from dray.controllers.choice import ALL, CLAIMS, policies
from dray.controllers.guard.callers import kept_secret
from dray.controllers.guard.webhook import Service
from dray.controllers.pictures import Surroundings
from dray.errors import ConflictError, Error, InvalidError, NotFoundError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.processes.controllers import ControllersOptions, GuardOptions, controllers, run_controllers
from dray.runtime.tasks import running
from tests.campaign import campaign, seeded, seeds
from tests.controllers import objects
from tests.controllers.guard.reviews import allocated, result, review_body
from tests.controllers.server import Cluster, cluster
from tests.processes.claims_checker import faults
from tests.waiting import PATIENCE, until, wait_until

SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": SPEC}}
NOW = DeleteOptions(grace_period=0)


class Program:
    """A dray command that may be killed and started again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[bytes] | None = None

    async def start(self, *, until: str = "msg=ready") -> str:
        """The line of its log that it was waited for; "" does not wait."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", *self._arguments, stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        said: list[str] = []
        line = ""
        async with asyncio.timeout(PATIENCE):
            while until and until not in (line := (await self._process.stderr.readline()).decode()):
                said.append(line)
                assert line, "".join(said)
        self._drain = asyncio.ensure_future(self._process.stderr.read())
        return line

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        await asyncio.wait_for(process.wait(), 60)
        if self._drain is not None:
            await self._drain
        return process.returncode


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@asynccontextmanager
async def server(directory: Path) -> AsyncIterator[tuple[Program, Client]]:
    """The API server, which keeps its port over restarts."""
    listen = f"127.0.0.1:{free_port()}"
    program = Program("apiserver", f"--data-dir={directory}", f"--listen={listen}")
    await program.start()
    try:
        async with Client(find_access(directory / "admin.kubeconfig")) as client:
            yield program, client
    finally:
        assert await program.stop() in (0, None)


def program(directory: Path, *arguments: str) -> Program:
    kubeconfig = f"--kubeconfig={directory / 'admin.kubeconfig'}"
    return Program("controllers", kubeconfig, "--metrics-address=none", *arguments)


def pod_document(name: str, rng: random.Random) -> dict[str, Any]:
    entries = [{"name": entry, "resourceClaimTemplateName": "t"} for entry in "ab"[: rng.randint(1, 2)]]
    if rng.random() < 0.3:
        entries.append({"name": "shared", "resourceClaimName": "shared"})
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries}
    if rng.random() < 0.3:
        spec["nodeName"] = "n1"  # past the scheduler
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def insist(what: Any) -> Any:
    """The result of `what()`, asked again while the server is away; None where it was refused for good."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await what()
            except (ConflictError, NotFoundError, InvalidError):
                return None
            except Error:
                await asyncio.sleep(0.05)


async def allocate(client: Client, name: str, pod: Any) -> None:
    """What a scheduler does; every claim gets a device of its own."""
    change: dict[str, Any] = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
    if await insist(lambda: client.patch(RESOURCE_CLAIMS, name, change, namespace="default")) is None:
        return
    result = {"request": "r", "driver": "d.example", "pool": "n", "device": name}
    user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    status = {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}}
    await insist(
        lambda: client.patch(RESOURCE_CLAIMS, name, status, namespace="default", subresource="status")
    )


async def disturb(client: Client, rng: random.Random) -> None:
    """A scheduler allocates, a pod ends, a pod goes."""
    pods = (await insist(lambda: client.list(PODS))).items
    if not pods:
        return
    pod = rng.choice(pods)
    name = pod.metadata.name
    match rng.randrange(4):
        case 0:
            change = {"status": {"phase": rng.choice(["Succeeded", "Failed"])}}
            await insist(lambda: client.patch(PODS, name, change, namespace="default", subresource="status"))
        case 1:
            await insist(lambda: client.delete(PODS, name, namespace="default", options=NOW))
        case _:
            for one in pod.status.resource_claim_statuses:
                await allocate(client, one.resource_claim_name, pod)


async def burst(client: Client, rng: random.Random, name: str, count: int) -> None:
    for number in range(count):
        document = pod_document(f"{name}-{number}", rng)
        await insist(lambda document=document: client.create(PODS, document))
        if rng.random() < 0.5:
            await disturb(client, rng)


async def settle(client: Client, seconds: float = 60.0) -> None:
    """Nothing is wrong any more, and it stays so."""
    found, calm = ["not looked yet"], 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while calm < 4:
                await asyncio.sleep(0.1)
                found = await insist(lambda: faults(client))
                calm = 0 if found else calm + 1
    assert calm == 4, found or "right, but it does not stay so"


@pytest.mark.parametrize("seed", seeds(1, 10))
async def test_kills_in_the_middle_of_bursts_leave_everything_right(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with server(tmp_path) as (api, client):
        await client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE)
        shared = {"metadata": {"name": "shared", "namespace": "default"}, "spec": SPEC}
        await client.create(RESOURCE_CLAIMS, shared)
        both = [
            program(tmp_path, "--node-lifecycle", "--controllers=*,-node-lifecycle-controller"),
            program(tmp_path),
        ][: campaign(1, 2)]  # two at once: also in tests/controllers/claims/test_controller.py
        await asyncio.gather(*(one.start() for one in both))
        for turn in range(campaign(1, 12)):
            async with asyncio.TaskGroup() as group:
                group.create_task(burst(client, rng, f"p{turn}", campaign(8, 12)))
                await asyncio.sleep(0.3 * rng.random())
                victim = both[turn % len(both)]
                await victim.stop(signal.SIGKILL)
                if turn % 2 == 0:  # and all watches are cut
                    await api.stop(signal.SIGKILL)
                    await api.start()
                await victim.start()
        await settle(client)
        for pod in (await client.list(PODS)).items:
            await client.delete(PODS, pod.metadata.name, namespace="default", options=NOW)
        await settle(client)
        left = [one.metadata.name for one in (await client.list(RESOURCE_CLAIMS)).items]
        assert left == ["shared"]
        assert {await one.stop() for one in both} == {0}


async def test_one_of_two_leads_and_a_clean_end_lets_the_other_in_at_once(tmp_path: Path) -> None:
    serving = api_server(ApiServerOptions(tmp_path, Address()))
    async with serving as found, Client(find_access(found.kubeconfig)) as client:
        await client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE)
        name, times = "--leader-elect-resource-name=dc", "--leader-elect-lease-duration=300"
        one = program(tmp_path, "--leader-elect", name, times)
        await one.start()
        held = LeaderConfig("kube-system", "dc", times=LeaseTimes(300.0, 10.0, 0.2))
        options = ControllersOptions(
            found.kubeconfig, (CLAIMS,), policies("correct", ""), leader=held, workers=2
        )
        async with running(run_controllers(options), name="two"):
            lease = await client.get(LEASES, "dc", namespace="kube-system")
            assert await one.stop() == 0
            await client.create(PODS, pod_document("p", seeded(0)))
            await settle(client)  # a lease that was not given back would take minutes to run out
            assert (await client.get(LEASES, "dc", namespace="kube-system")).spec != lease.spec


async def test_a_guard_that_waits_refuses_until_the_one_that_led_is_gone(tmp_path: Path) -> None:
    serving = api_server(ApiServerOptions(tmp_path, Address()))
    async with serving as found, Client(find_access(found.kubeconfig)) as client:
        first, second = [await review_of_new_claim(client, name) for name in ("c", "d")]
        flags = ("--guard", "--controllers=", "--no-guard-webhook", "--guard-address=127.0.0.1:0")
        times = ("lease-duration=2", "renew-deadline=1", "retry-period=0.2")
        guard = program(
            tmp_path, *flags, f"--guard-dir={tmp_path / 'one'}", *(f"--leader-elect-{one}" for one in times)
        )
        line = await guard.start(until='msg="the guard listens"')
        leads = Asking(int(line.rpartition("port=")[2]), tmp_path / "one")
        await leads.wait_ready()
        lease = LeaderConfig("kube-system", "dray-guard", times=LeaseTimes(2.0, 1.0, 0.2))
        where = ("127.0.0.1", free_port())
        options = GuardOptions(where, tmp_path / "two", lease, installs=False)
        other = ControllersOptions(found.kubeconfig, (), policies("correct", ""), guard=options)
        async with running(run_controllers(other), name="two"):
            waits = Asking(where[1], tmp_path / "two")
            assert (await waits.ask(first))["status"]["code"] == 503
            assert not await waits.is_ready()
            assert (await leads.ask(first))["allowed"]
            await guard.stop(signal.SIGKILL)
            await waits.wait_ready()
            refusal = await waits.ask(second)
            assert "is being allocated to claim default/c" in refusal["status"]["message"]


async def test_the_guard_that_leads_writes_its_address_over_that_of_the_one_before(tmp_path: Path) -> None:
    serving = api_server(ApiServerOptions(tmp_path, Address()))
    async with serving as found, Client(find_access(found.kubeconfig)) as client:
        path = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/dray-guard-webhook"
        for address in ("10.0.0.5", "10.0.0.6"):
            lease = LeaderConfig("kube-system", "dray-guard")
            service = Service("kube-system", "dray-guard-webhook")
            options = GuardOptions(
                ("127.0.0.1", 0), tmp_path / "g", lease, service, installs=False, endpoint=address
            )
            both = ControllersOptions(found.kubeconfig, (), policies("correct", ""), guard=options)
            async with running(run_controllers(both), name="guard"), asyncio.timeout(PATIENCE):
                told: list[str] = []
                while told != [address]:
                    with contextlib.suppress(NotFoundError):
                        endpoints = (await client.raw(Request("GET", path)))["endpoints"]
                        told = [one for endpoint in endpoints for one in endpoint["addresses"]]
                    await asyncio.sleep(0.01)


async def review_of_new_claim(client: Client, name: str) -> bytes:
    """What an API server asks when a new claim gets its device; always the same one."""
    document = {"metadata": {"name": name, "namespace": "default"}, "spec": SPEC}
    await client.create(RESOURCE_CLAIMS, document)
    raw = await client.get_raw(RESOURCE_CLAIMS, name, namespace="default")
    return review_body(raw, allocated(raw, result()))


class Asking:
    """An API server's way to one guard."""

    def __init__(self, port: int, directory: Path) -> None:
        self._url = f"https://127.0.0.1:{port}"
        self._directory = directory

    async def wait_ready(self) -> None:
        await until(self.is_ready)

    async def is_ready(self) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{self._url}/readyz", ssl=False) as found:
            return found.status == 200

    async def ask(self, body: bytes) -> dict[str, Any]:
        url = f"{self._url}/claims/{kept_secret(self._directory)}"
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.post(url, data=body, ssl=False) as found:
                        answer: dict[str, Any] = (await found.json())["response"]
                        return answer
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.02)  # it does not listen yet


async def test_the_checker_sees_what_may_be_wrong(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        found = await api.add_pod(objects.pod_document("p", claims={"a": "t"}, node="n", recorded={"a": "x"}))
        uid = found["metadata"]["uid"]
        for name, owner in (("x", uid), ("y", uid), ("z", objects.OTHER_UID)):
            await api.add(RESOURCE_CLAIMS, owned_claim(name, owner))
        await api.add_pod(objects.pod_document("q", claims={"a": "t"}))
        await api.allocate("x", [])
        await api.allocate("y", [objects.user("gone", objects.OTHER_UID)])
        await api.change(
            RESOURCE_CLAIMS, "z", metadata=api.find(RESOURCE_CLAIMS, "z")["metadata"] | FINALIZED
        )
        said = await faults(client)
    for text in ("2 claims for", "no claim for", "claim left over", "pod q: nothing recorded for ['a']"):
        assert any(text in one for one in said), said
    for text in ("'x'): not reserved for", "'y'): reserved for", "'z'): free, but has"):
        assert any(text in one for one in said), said


FINALIZED = {"finalizers": [CLAIM_FINALIZER]}


def owned_claim(name: str, uid: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    notes = {POD_CLAIM_NAME_ANNOTATION: "a"}
    metadata = {"name": name, "namespace": "default", "annotations": notes, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": SPEC}


async def test_the_claim_of_a_pods_extended_resources_is_freed_and_deleted_after_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        uids = {}
        for name, claim, phase in (("p", "x", "Running"), ("q", "y", "Succeeded")):
            pod = await api.add_pod(objects.pod_document(name, node="n", phase=phase, extended=claim))
            uids[name] = uid = pod["metadata"]["uid"]
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
            notes = {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
            metadata = {
                "name": claim,
                "namespace": "default",
                "annotations": notes,
                "ownerReferences": [owner],
            }
            await api.add(RESOURCE_CLAIMS, {"metadata": metadata, "spec": SPEC})
            await api.allocate(claim, [objects.user(name, uid)])
        uid = uids["p"]
        options = ControllersOptions(None, (CLAIMS,), policies("correct", ""))
        async with controllers(Surroundings.of(client), options):
            await wait_until(lambda: not api.find(RESOURCE_CLAIMS, "y"))  # it looked at all of them
            assert api.find(RESOURCE_CLAIMS, "x")["status"]["reservedFor"] == [objects.user("p", uid)]
            await api.change(PODS, "p", status={"phase": "Succeeded"})
            await wait_until(lambda: not api.find(RESOURCE_CLAIMS, "x"))


class Counting(Cluster):
    """Counts who watches what."""

    async def _watch(self, request: web.Request, place: Any) -> web.StreamResponse:
        watched[place.resource.plural] += 1
        return await super()._watch(request, place)


watched: Counter[str] = Counter()


async def test_all_controllers_share_one_watch_of_each_collection(tmp_path: Path) -> None:
    watched.clear()
    async with cluster(tmp_path, Counting) as (_, client):
        options = ControllersOptions(None, ALL, policies("correct", ""))
        async with controllers(Surroundings.of(client), options):
            await wait_until(lambda: len(watched) == 7)
            for _ in range(3):  # a second watch would have begun with the first
                await client.list(PODS)
    assert dict(watched) == dict.fromkeys(
        [
            "pods",
            "nodes",
            "leases",
            "resourceclaims",
            "resourceclaimtemplates",
            "resourceslices",
            "devicetaintrules",
        ],
        1,
    )
