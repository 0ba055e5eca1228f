"""Pods with claims under our own kubelet while it and the agent are killed and restarted, and the API server is away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import encode
from dray.api.kinds import PODS
from dray.client.http import Request
from dray.errors import NotFoundError
from tests.campaign import campaign, seeded
from tests.processes.dra_machine import GPUS, DraMachine, dra_machine
from tests.processes.dra_program import NODE
from tests.processes.dra_storm import PREPARE, UNPREPARE
from tests.processes.fault_points import Target

Json = dict[str, Any]
DEVICES = (*GPUS, "cut-0-1g-0", "cut-0-1g-1", "cut-0-1g-2")


@dataclass
class Pods:
    """Pods, each with a claim of its own, and the kubelet that runs them."""

    machine: DraMachine
    kubelet: asyncio.subprocess.Process | None = None
    wanted: dict[str, str] = field(default_factory=dict)
    """Names, and the device of each."""
    devices: dict[str, str] = field(default_factory=dict)
    """The same of all that ever were."""
    _made: int = 0

    async def start_kubelet(self) -> None:
        root = self.machine.root
        places = {
            "--kubeconfig": root / "kubeconfig",
            "--kubelet-dir": root / "kubelet",
            "--device-plugin-dir": root / "kubelet/device-plugins",
            "--state-dir": root / "kubelet-state",
            "--log-dir": root / "logs",
            "--cdi-dir": root / "cdi",
        }
        flags = [str(word) for pair in places.items() for word in pair]
        flags += ["--node-name", NODE, "--runtime", "process", "--metrics-address", "none"]
        with (root / "kubelet.log").open("ab") as log:
            self.kubelet = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dray", "kubelet", *flags), stdout=log, stderr=log
            )

    async def kill_kubelet(self) -> None:
        assert self.kubelet is not None
        with contextlib.suppress(ProcessLookupError):
            self.kubelet.kill()
        async with asyncio.timeout(60):
            await self.kubelet.wait()

    async def run(self, device: str) -> None:
        self._made += 1
        name = f"pod-{self._made}"
        env = [
            {"name": "TEST_POD", "value": name},
            {"name": "TEST_ROOT", "value": str(self.machine.root)},
        ]
        container = {
            "name": "main",
            "image": "none",
            "command": ["sleep", "1000"],
            "env": env,
            "resources": {"claims": [{"name": "device"}]},
        }
        spec = {
            "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
            "terminationGracePeriodSeconds": 1,
        }
        client = self.machine.server.client
        document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        made = await client.create(PODS, document)
        user = {"resource": "pods", "name": name, "uid": made.metadata.uid}
        await self.machine.create(name, [device], users=[user])
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        await client.raw(Request("POST", path, body=encode(binding)))
        self.wanted[name] = self.devices[name] = device

    async def end(self, name: str) -> None:
        del self.wanted[name]
        await self.machine.server.client.delete(PODS, name, namespace="default")

    async def change(self, dice: random.Random) -> None:
        """Some go, others come."""
        for name in [one for one in self.wanted if dice.random() < 0.4]:
            await self.end(name)
        refs = self.machine.refs
        for name in [one for one in refs if one not in self.wanted and not await self._is_there(one)]:
            await self.machine.delete(refs[name])  # as the garbage collector does, when the pod is gone
        taken = {self.devices[name] for name in refs}
        free = [one for one in DEVICES if one not in taken]
        for device in dice.sample(free, min(len(free), dice.randint(1, 3))):
            await self.run(device)

    async def _is_there(self, name: str) -> bool:
        try:
            await self.machine.server.client.get(PODS, name, namespace="default")
        except NotFoundError:
            return False
        return True

    def running(self) -> set[str]:
        """The pods whose containers' processes live."""
        found = set()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().startswith(b"sleep\x00"):
                    text = (entry / "environ").read_text()
                    environ = dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
                    if environ.get("TEST_ROOT") == str(self.machine.root):
                        found.add(environ["TEST_POD"])
        return found

    def prepared(self) -> set[str]:
        """The pods whose claims a runtime could inject."""
        uids = " ".join(self.machine.cdi_names())
        return {name for name, ref in self.machine.refs.items() if ref.uid in uids}

    async def settle(self) -> None:
        """What shall run runs, with its device; the others are gone."""

        seen: list[object] = []

        async def is_so() -> bool:
            pods = (await self.machine.server.client.list(PODS)).items
            phases = {one.metadata.name: one.status.phase for one in pods}
            running, prepared = self.running(), self.prepared()
            seen[:] = [phases, running, prepared]
            is_told = phases == dict.fromkeys(self.wanted, "Running")
            return is_told and running == prepared == set(self.wanted)

        try:
            await self.machine.wait(is_so, f"pods {self.wanted}", 60)
        except pytest.fail.Exception:
            print("phases, running, prepared:", *seen)
            print((self.machine.root / "kubelet.log").read_text()[-6000:])
            raise

    async def leave(self) -> None:
        if self.kubelet is not None:
            await self.kill_kubelet()
        mark = str(self.machine.root).encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)


@asynccontextmanager
async def pods_in(root: Path) -> AsyncIterator[Pods]:
    async with dra_machine(root, has_kubelet=False) as machine:
        pods = Pods(machine)
        try:
            await pods.start_kubelet()
            yield pods
        finally:
            await pods.leave()


async def test_no_pod_is_stuck(tmp_path: Path) -> None:
    dice = seeded(6005)
    async with pods_in(tmp_path) as pods:
        machine = pods.machine
        for number in range(campaign(2, 40)):
            machine.aim(Target(dice.choice((*PREPARE, *UNPREPARE))) if number else None)
            await machine.start()
            await pods.change(dice)
            if number % 2:
                await pods.kill_kubelet()
                await pods.start_kubelet()
            is_away = number % 4 in (1, 2)
            if is_away:
                await machine.server.stop()
            with contextlib.suppress(TimeoutError):
                await machine.ended(1.0)
            if is_away:
                await machine.server.start()
            machine.aim(None)
            with contextlib.suppress(TimeoutError):  # it may have died since
                if machine.pid:
                    await machine.ended(0.2)
            if not machine.pid:
                await machine.start()
            await pods.settle()
            await machine.kill()
        await machine.start()
        for name in list(pods.wanted):
            await pods.end(name)
        await pods.settle()
        for ref in list(machine.refs.values()):
            await machine.delete(ref)
        await machine.wait_clean()
        print(f"{machine.kills} kills, {pods._made} pods")
        assert machine.kills > 0 and pods._made > 2
        assert "Traceback" not in machine.log() + (machine.root / "kubelet.log").read_text()
