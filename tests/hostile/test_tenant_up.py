"""`dray up`, everything in one process, with every hostile claim pending: others' pods run, and all is back after a kill."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec.json_codec import to_raw
from dray.api.kinds import DEVICE_CLASSES, EVENTS, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.client import Client
from dray.client.http import HttpOptions
from dray.client.kubeconfig import find_access
from dray.errors import InvalidError
from dray.up.place import UpPlace
from tests.hostile.deciding import classes, shared_slice
from tests.hostile.test_tenant_claims import ENDLESS, KNAPSACKS, wish
from tests.hostile.test_tenant_selectors import TABLE
from tests.scheduler.live import until
from tests.up.up_program import UpProgram

Json = dict[str, Any]
HANG = 240.0
"""What nobody waits for: on a quiet machine all of it takes a second or two."""
MOST_MEMORY = 1 << 30
STOPPED = "the search for devices was stopped after "
TENANT, PLAIN = "tenant", "default"


@pytest.fixture
def program() -> Iterator[UpProgram]:
    directory = Path(tempfile.mkdtemp(prefix="dray-"))
    words = ("--runtime", "process", "--sim", "h200x8-mig", "--node-name", "local", "--no-dashboard")
    made = UpProgram(UpPlace(directory / "up"), words)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(directory)


@asynccontextmanager
async def watched(program: UpProgram) -> AsyncIterator[Client]:
    """The API server of a program that runs. It answers throughout, in one process with all that is decided."""
    async with Client(find_access(program.place.kubeconfig), HttpOptions(timeout=HANG)) as client:

        async def ask() -> None:
            while True:
                async with asyncio.timeout(HANG):
                    await client.get(NODES, "local")
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ask())
            yield client
            asking.cancel()


def pod(name: str, *claims: str) -> Json:
    command = ["sh", "-c", "exec sleep 1000"]
    names = [{"name": f"c{place}"} for place in range(len(claims))]
    container = {"name": "main", "image": "none", "command": command, "resources": {"claims": names}}
    given = [{**one, "resourceClaimName": claim} for one, claim in zip(names, claims, strict=True)]
    spec = {"containers": [container], "resourceClaims": given, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name}, "spec": spec}


def named(claim: Json, name: str) -> Json:
    return {**claim, "metadata": {"name": name}}


def selecting(*texts: str) -> Json:
    selectors = [{"cel": {"expression": text}} for text in texts]
    request = {"name": "r", "exactly": {**wish(1, "any"), "selectors": selectors}}
    return {"spec": {"devices": {"requests": [request]}}}


def unique(number: int) -> str:
    """At an eighth of the cost limit, and with another answer for each device."""
    return f"lists.range(9000).map(x, string(x)).exists(s, s == device.attributes['gpu.nvidia.com'].uuid + '{number}')"


def large(number: int) -> str:
    """Of eight kilobytes, which take a tenth of a second to compile."""
    return f"{' && '.join([f'1 + {number} == {1 + number}'] * 480)} && device.driver == 'none'"


HOSTILE: dict[str, list[Json]] = {
    # The first, for the test waits until its time is over: there is one search at a time.
    "endless": [ENDLESS],
    **{f"selector-{at}": [selecting(text)] for at, (text, _) in enumerate(TABLE.values())},
    "unique": [selecting(*(unique(number) for number in range(32)))],
    "large": [selecting(*(large(number) for number in range(6)))],
    "knapsack": KNAPSACKS["as it was found"][0],
    "numa": KNAPSACKS["three claims, each on one NUMA node"][0],
    "alternatives": KNAPSACKS["alternatives"][0],
}


async def attack(client: Client) -> list[str]:
    """The hostile pods. Some claims are refused at the door: what does not compile."""
    await client.create(NAMESPACES, {"metadata": {"name": TENANT}})
    for device_class in classes():
        await client.create(DEVICE_CLASSES, to_raw(device_class))
    await client.create(RESOURCE_SLICES, to_raw(shared_slice()))
    made = []
    for name, claims in HOSTILE.items():
        names = [f"{name}-{place}" for place in range(len(claims))]
        try:
            for one, claim in zip(names, claims, strict=True):
                await client.create(RESOURCE_CLAIMS, named(claim, one), namespace=TENANT)
        except InvalidError:
            continue
        await client.create(PODS, pod(name, *names), namespace=TENANT)
        made.append(name)
    return made


async def wait_running(client: Client, *names: str) -> None:
    async def are_running() -> bool:
        found = [await client.get(PODS, name, namespace=PLAIN) for name in names]
        return all(one.status.phase == "Running" for one in found)

    await until(are_running, HANG, 0.05)


async def time_running(client: Client, tell: Callable[[str, object], None], name: str, *others: str) -> None:
    """A plain pod is made and runs. How long that took is told, not asserted: the aim is 30 s."""
    started = time.monotonic()
    await client.create(PODS, pod(name), namespace=PLAIN)
    await wait_running(client, *others, name)
    seconds = round(time.monotonic() - started, 1)
    print(f"pod {name} ran after {seconds} s with {len(HOSTILE)} hostile pods around it")
    tell(f"seconds until pod {name} ran", seconds)


async def conditions(client: Client) -> dict[str, str]:
    """Why each of the tenant's pods has no node; "" where nothing is told yet. Those that got one are not there."""
    found = {}
    for one in (await client.list(PODS)).items:
        if one.metadata.namespace == TENANT and not one.spec.node_name:
            why = [each.message for each in one.status.conditions if each.type == "PodScheduled"]
            found[one.metadata.name] = "".join(why)
    return found


def peak_memory(pid: int) -> int:
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) << 10


async def test_with_all_of_them_pending_pods_run_and_all_is_back_after_a_kill(
    program: UpProgram, record_property: Callable[[str, object], None]
) -> None:
    running = program.start()
    async with watched(program) as client:
        made = await attack(client)
        assert len(made) > 40 and {"unique", "large", "knapsack", "endless"} <= set(made)
        await time_running(client, record_property, "plain")

        async def is_stopped() -> bool:
            return STOPPED in (await conditions(client)).get("endless", "")

        async def has_event() -> bool:
            events = (await client.list(EVENTS)).items
            return any(STOPPED in one.message for one in events if one.metadata.namespace == TENANT)

        await until(is_stopped, HANG, 0.2)
        await until(has_event, HANG, 0.2)
        await time_running(client, record_property, "later", "plain")
        before = await conditions(client)
    assert peak_memory(running.pid) < MOST_MEMORY
    program.stop(signal.SIGKILL)
    running = program.start()
    async with watched(program) as client:
        await time_running(client, record_property, "after", "plain", "later")
        now = await conditions(client)
        pods = (await client.list(PODS)).items
        assert {one.metadata.name for one in pods if one.metadata.namespace == TENANT} == set(made)
        # Some selectors are honest in the end: such a pod may have got its device meanwhile.
        assert before.keys() >= now.keys() >= {"knapsack", "numa", "alternatives", "endless"}
        assert STOPPED in now["endless"]
    assert peak_memory(running.pid) < MOST_MEMORY
