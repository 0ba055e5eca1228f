"""A supervised `dray up` under a load of pods with claims and with plugin resources, killed at any moment, and judged.

Containers write down their own starts, and take a lock in the name of each device that a plugin gave them: what runs twice,
or shares a device, is seen by itself and not by what Dray says of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import ConflictError, Error, NotFoundError
from dray.inventory.holds_file import Content
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.tasks import running
from dray.up.choice import free_port
from dray.up.place import RunningUp, Supervising, UpPlace
from dray.up.supervisor import SupervisorOptions, run_supervisor
from tests.processes.claims_checker import faults
from tests.waiting import until

RESOURCE = "example.com/gpu"
PROFILE = (
    f"local: {{devices: [{{name: gpu, count: 4}}, {{name: old, count: 4, resourceName: {RESOURCE}}}]}}\n"
)
NAMESPACE = "default"
PATIENCE = 60.0
REFUSED = "UnexpectedAdmissionError"
_PODS = 8
Json = dict[str, Any]


@dataclass
class UpStorm:
    place: UpPlace
    notes: Path
    rng: random.Random
    acknowledged: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    killed: int = 0
    holds_seen: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    is_over: bool = False
    _number: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Client]:
        """The supervisor in this process, `dray up` in one of its own. Entered: it was ready once."""
        profile = self.notes / "profile.yaml"
        profile.write_text(PROFILE)
        words = f"--runtime process --log-level info --node-name one --listen 127.0.0.1:{free_port()}".split()
        command = [sys.executable, "-m", "dray", "up", *words]
        command += ["--data-dir", str(self.place.data_dir), "--sim", str(profile)]
        pauses = BackoffPolicy(first=0.01, limit=0.05)
        with self._log_to_file():
            work = run_supervisor(SupervisorOptions(self.place, command, pauses))
            async with running(work, name="supervisor", stop_timeout=90.0):
                await self.wait_ready()
                async with Client(find_access(self.place.kubeconfig)) as client:
                    yield client

    @contextlib.contextmanager
    def _log_to_file(self) -> Iterator[None]:
        """The child writes where we write."""
        kept = os.dup(1), os.dup(2)
        with (self.notes / "log").open("ab") as log:
            for number in (1, 2):
                os.dup2(log.fileno(), number)
        try:
            yield
        finally:
            for number, descriptor in zip((1, 2), kept, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)

    async def wait_ready(self) -> RunningUp:
        """By a process that was not killed: one that was may take a moment to be gone."""
        found: list[RunningUp] = []

        async def is_ready() -> bool:
            known = self.place.read(RunningUp)
            if known is not None and known.pid != self.killed:
                found.append(known)
            return bool(found)

        await until(is_ready, seconds=PATIENCE)
        return found[0]

    async def kill(self) -> None:
        """Half of the times once it is ready, else while it starts."""
        if self.rng.random() < 0.5:
            await self.wait_ready()
        await asyncio.sleep(self.rng.uniform(0.0, 2.0))
        known = self.place.read(Supervising)
        if known is None or not known.child:
            return
        self.deaths["ready" if self.place.read(RunningUp) else "starting"] += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(known.child, signal.SIGKILL)
        self.kills, self.killed = self.kills + 1, known.child
        await asyncio.sleep(0.05)

    async def begin(self, client: Client) -> None:
        """A template, and two pods that run for ever: nobody may ever notice that something was killed."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "sim.dray.internal"}}
        template = {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace=NAMESPACE)
        for name in ("steady-claim", "steady-plugin"):
            pod = await client.create(PODS, self._pod(name, 100_000), namespace=NAMESPACE)
            self.acknowledged[name] = pod.metadata.uid
        await self.wait_running(client, "steady-claim", "steady-plugin")

    async def wait_running(self, client: Client, *names: str) -> None:
        async def are_running() -> bool:
            pods = {pod.metadata.name: pod.status.phase for pod in await self._pods(client)}
            return all(pods.get(name) == "Running" for name in names)

        await until(are_running, seconds=PATIENCE)

    async def load(self, client: Client) -> None:
        """New pods while few are under way; those that ended are sometimes deleted. Stops once `is_over`."""
        while not self.is_over:
            await asyncio.sleep(self.rng.uniform(0.02, 0.2))
            with contextlib.suppress(Error):
                pods = await self._pods(client)
                ended = [pod for pod in pods if pod.status.phase in ("Succeeded", "Failed")]
                if len(pods) - len(ended) < _PODS:
                    await self._create(client)
                if len(ended) > 10:
                    await self._delete(client, self.rng.choice(ended))

    async def check(self, client: Client) -> None:
        """After a recovery: nothing is lost, and nothing is given twice."""
        pods = {pod.metadata.name: pod.metadata.uid for pod in await self._pods(client)}
        lost = {name for name, uid in self.acknowledged.items() if pods.get(name) != uid}
        assert not lost, f"acknowledged and lost: {sorted(lost)}"
        claims = (await client.list(RESOURCE_CLAIMS)).items
        given = Counter(
            (one.driver, one.pool, one.device)
            for claim in claims
            if claim.status.allocation is not None
            for one in claim.status.allocation.devices.results
        )
        assert all(count == 1 for count in given.values()), given
        self.check_ledger()
        self.check_notes()

    def check_ledger(self) -> None:
        """The agent's: each device has one owner through one door."""
        path = self.place.agent / "holds"
        holds = Format(Content).decode(path.read_bytes()).holds if path.exists() else ()
        self.holds_seen = max(self.holds_seen, len(holds))
        owners: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for one in holds:
            owners.setdefault((one.kind, one.device), set()).add((one.door.value, one.uid or one.resource))
        doubled = {
            device: who
            for device, who in owners.items()
            if device[0] == "sim" and len({door for door, _ in who}) + len(who) > 2
        }
        assert not doubled, doubled

    def check_notes(self) -> None:
        """What the containers themselves saw."""
        shared = self.notes / "shared"
        assert not shared.exists(), shared.read_text()
        for path in self.notes.glob("*.starts"):
            assert path.read_text().count("start\n") == 1, f"{path.name}: a container was started twice"

    async def settle(self, client: Client) -> None:
        """No more load: every pod comes to the end that it should."""
        self.is_over = True
        await self.wait_ready()

        async def is_settled() -> bool:
            try:
                return not [pod for pod in await self._pods(client) if self._is_under_way(pod)]
            except Error:
                return False

        await until(is_settled, seconds=PATIENCE)
        await self.wait_running(client, "steady-claim", "steady-plugin")
        for pod in await self._pods(client):
            bad = pod.status.phase == "Failed" and pod.status.reason != REFUSED
            assert not bad, f"{pod.metadata.name}: {pod.status.reason} {pod.status.message}"
            if pod.status.phase == "Succeeded":
                assert (self.notes / f"{pod.metadata.name}.starts").exists()
        left: list[str] = []

        async def is_clean() -> bool:
            left[:] = await faults(client)
            return not left

        try:
            await until(is_clean, seconds=PATIENCE)
        except TimeoutError:
            raise AssertionError(left) from None
        await self.check(client)

    @staticmethod
    def _is_under_way(pod: Pod) -> bool:
        steady = pod.metadata.name.startswith("steady")
        return not steady and pod.status.phase not in ("Succeeded", "Failed")

    async def _pods(self, client: Client) -> tuple[Pod, ...]:
        return (await client.list(PODS)).items

    async def _create(self, client: Client) -> None:
        self._number += 1
        name = f"{self.rng.choice(('claim', 'plugin'))}-{self._number}"
        with contextlib.suppress(ConflictError):
            made = await client.create(PODS, self._pod(name, self.rng.uniform(0.1, 1.5)), namespace=NAMESPACE)
            self.acknowledged[name] = made.metadata.uid

    async def _delete(self, client: Client, pod: Pod) -> None:
        """From the moment of asking it may be gone."""
        self.acknowledged.pop(pod.metadata.name, None)
        with contextlib.suppress(NotFoundError):
            await client.delete(PODS, pod.metadata.name, namespace=NAMESPACE)

    def _pod(self, name: str, seconds: float) -> Json:
        device = "SIM_RESOURCE_EXAMPLE_COM_GPU"
        script = (
            f"echo start >> {self.notes}/{name}.starts; "
            f'if [ -n "${device}" ]; then exec 9> {self.notes}/device-${device}; '
            f"flock -n 9 || echo {name} ${device} >> {self.notes}/shared; fi; exec sleep {seconds:.2f}"
        )
        container: Json = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
        spec: Json = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        if "claim" in name:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        else:
            container["resources"] = {"limits": {RESOURCE: "1"}}
        return {"metadata": {"name": name}, "spec": spec}
