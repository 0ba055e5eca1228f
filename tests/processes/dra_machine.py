"""A node whose agent is a DRA driver that dies again and again: what stands around it, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.cdi.spec import read_spec
from dray.dra.claims.books import CHECKPOINT
from dray.dra.claims.state import STATE_FORMAT
from dray.dra.parcels import ClaimRef
from dray.errors import Error, NotFoundError
from dray.inventory.holds_file import Content
from dray.inventory.ledger import Door, Hold
from dray.runtime.files.checkpoint_format import Format
from dray.wire.connect import connect
from dray.wire.dra import DraClient
from dray.wire.gen.dra_v1_pb2 import Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, RegistrationStatus
from dray.wire.registration import RegistrationClient
from tests.deadly import forgive
from tests.processes.agent_server import AgentServer, agent_server
from tests.processes.dra_program import LOG, NODE, TARGET
from tests.processes.fault_points import Target, deaths
from tests.small_kubelet import SmallKubelet
from tests.waiting import PATIENCE, until

Json = dict[str, Any]
SIM, GPU = "sim.dray.internal", "example.com/gpu"
GPUS = tuple(f"gpu-{index}" for index in range(4))
REQUEST = "req"
WAIT_SECONDS = 60.0
FAST = 10
"""For what takes the agent some seconds on purpose: pauses, and how long it believes that a pod may still begin."""


def config(doors: Json, extra: int = 1) -> Json:
    """GPUs, one that can be cut, one with shares, and `extra` ones that come and go."""
    cut = [{"profile": "1g", "count": 4, "memory": "10Gi"}]
    devices = [
        {"name": "gpu", "count": len(GPUS), "resourceName": GPU},
        {"name": "cut", "resourceName": "example.com/cut", "partitions": cut},
        {"name": "shared", "resourceName": "example.com/shared", "shares": 8},
        {"name": "extra", "count": extra, "resourceName": "example.com/extra"},
    ]
    return {"dray": {"doors": doors, "sim": {"devices": devices}}}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the driver said about one claim: `error`, or devices with their CDI names."""

    error: str = ""
    devices: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()

    @property
    def cdi_ids(self) -> list[str]:
        return [name for _, _, names in self.devices for name in names]


@dataclass
class DraMachine:
    """Made by `dra_machine`. `kills` counts all deaths by SIGKILL, wherever they came from."""

    root: Path
    server: AgentServer
    kubelet: SmallKubelet
    zygote: asyncio.subprocess.Process
    doors: Json
    pid: int = 0
    kills: int = 0
    extra: int = 1
    refs: dict[str, ClaimRef] = field(default_factory=dict)

    # The agent

    def configure(self, doors: Json | None = None, extra: int | None = None) -> None:
        self.doors = self.doors if doors is None else doors
        self.extra = self.extra if extra is None else extra
        fresh = self.root / "agent.json.new"
        fresh.write_text(json.dumps(config(self.doors, self.extra)))
        fresh.rename(self.root / "agent.json")

    def aim(self, target: Target | None) -> None:
        """Where the agent shall die, this one or the next; None: nowhere."""
        path = self.root / TARGET
        target.write(path) if target else path.unlink(missing_ok=True)

    def deaths(self) -> list[str]:
        return deaths(self.root / LOG)

    def log(self) -> str:
        path = self.root / LOG
        return path.read_text(errors="replace") if path.exists() else ""

    async def start(self, speed: int = 1) -> None:
        """A new life, whose clock may run faster."""
        assert self.zygote.stdin is not None and not self.pid
        forgive(self.data_dir)
        self.zygote.stdin.write(f"{speed}\n".encode())
        self.pid = int(await self._line())

    async def ended(self, seconds: float = WAIT_SECONDS) -> int:
        """Its exit code, when it has ended."""
        async with asyncio.timeout(seconds):
            code = int(await self._line())
        self.pid = 0
        self.kills += code == -signal.SIGKILL
        return code

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Its exit code."""
        assert self.pid > 0, "there is none"
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return await self.ended()

    async def _line(self) -> str:
        assert self.zygote.stdout is not None
        line = (await self.zygote.stdout.readline()).decode()
        assert line, (self.root / "zygote.log").read_text()
        return line

    # A kubelet's calls

    @property
    def data_dir(self) -> Path:
        return self.root / "kubelet/plugins" / SIM

    async def register(self) -> bool:
        """As a kubelet does that finds the socket; False where there is nobody."""
        path = self.root / f"kubelet/plugins_registry/{SIM}-reg.sock"
        try:
            async with connect(path, timeout=PATIENCE) as channel:
                info = await RegistrationClient(channel).get_info(InfoRequest())
                assert (info.name, info.endpoint) == (SIM, str(self.data_dir / "dra.sock"))
                told = RegistrationStatus(plugin_registered=True)
                await RegistrationClient(channel).notify_registration_status(told)
        except Error:
            return False
        return True

    async def wait_served(self) -> None:
        await self.wait(self.register, "the driver's registration")

    async def prepare(self, *refs: ClaimRef) -> dict[str, Answer]:
        """By UID. An error of the call is raised."""
        request = NodePrepareResourcesRequest(claims=[_claim(ref) for ref in refs])
        async with connect(self.data_dir / "dra.sock", timeout=45) as channel:
            answer = await DraClient(channel).node_prepare_resources(request)
        return {
            uid: Answer(
                one.error,
                tuple(
                    (each.device_name, tuple(each.request_names), tuple(each.cdi_device_ids))
                    for each in one.devices
                ),
            )
            for uid, one in answer.claims.items()
        }

    async def unprepare(self, *refs: ClaimRef) -> dict[str, str]:
        request = NodeUnprepareResourcesRequest(claims=[_claim(ref) for ref in refs])
        async with connect(self.data_dir / "dra.sock", timeout=45) as channel:
            answer = await DraClient(channel).node_unprepare_resources(request)
        return {uid: one.error for uid, one in answer.claims.items()}

    # Claims

    async def create(
        self, name: str, devices: Sequence[str], *, is_shared: bool = False, users: Sequence[Json] = ()
    ) -> ClaimRef:
        """A claim that a scheduler has just allocated, for these pods."""
        wanted = {"name": REQUEST, "exactly": {"deviceClassName": SIM, "count": len(devices)}}
        document: Json = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [wanted]}},
        }
        made = await self.server.client.create(RESOURCE_CLAIMS, document)
        more: Json = {"shareID": str(uuid.uuid4()), "consumedCapacity": {"shares": "1"}} if is_shared else {}
        results = [
            {"request": REQUEST, "driver": SIM, "pool": NODE, "device": one, **more} for one in devices
        ]
        raw = await self.server.client.get_raw(RESOURCE_CLAIMS, name, namespace="default")
        raw["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": list(users)}
        await self.server.client.update(RESOURCE_CLAIMS, raw, subresource="status")
        self.refs[name] = ClaimRef("default", name, made.metadata.uid)
        return self.refs[name]

    async def delete(self, ref: ClaimRef) -> None:
        self.refs.pop(ref.name, None)
        with contextlib.suppress(NotFoundError):
            await self.server.client.delete(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)

    async def status_devices(self, ref: ClaimRef) -> list[str]:
        claim = await self.server.client.get(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)
        return sorted(one.device for one in claim.status.devices if one.driver == SIM)

    # Mishaps; the agent is dead meanwhile

    def reboot(self) -> None:
        """What is in memory is gone, and the kernel counts anew."""
        shutil.rmtree(self.root / "cdi", ignore_errors=True)
        self.set_boot(str(uuid.uuid4()))

    def set_boot(self, boot: str) -> None:
        path = self.root / "host/proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{boot}\n")

    @property
    def checkpoint(self) -> Path:
        return self.data_dir / CHECKPOINT

    @property
    def holds_file(self) -> Path:
        return self.root / "state/holds"

    # What is there

    async def is_offered(self, device: str) -> bool:
        """Whether pods may have it through the plugin."""
        return device in self.kubelet.healthy.get(GPU, ())

    async def pool(self) -> list[str]:
        """The devices of the slices, sorted; what is wrong with the pool instead, where it is not whole."""
        found = (await self.server.client.list(RESOURCE_SLICES)).items
        slices = [one for one in found if one.spec.driver == SIM]
        generations = {one.spec.pool.generation for one in slices}
        counts = {one.spec.pool.resource_slice_count for one in slices}
        if len(generations) != 1 or counts != {len(slices)}:
            return [f"generations {sorted(generations)}, {len(slices)} slices that say {sorted(counts)}"]
        names = [device.name for one in slices for device in one.spec.devices or ()]
        tainted = [
            f"{device.name} tainted" for one in slices for device in one.spec.devices or () if device.taints
        ]
        return sorted([*names, *tainted])

    def expected_pool(self) -> list[str]:
        cut = ["cut-0", *(f"cut-0-1g-{index}" for index in range(4))]
        return sorted([*GPUS, *cut, "shared-0", *(f"extra-{index}" for index in range(self.extra))])

    async def wait_pool(self) -> None:
        async def is_right() -> bool:
            return await self.pool() == self.expected_pool()

        await self.wait(is_right, "a whole pool")

    def cdi_names(self) -> set[str]:
        """All that a runtime could inject."""
        found = set()
        for path in sorted(one for one in (self.root / "cdi").glob("[!.]*") if not one.is_dir()):
            with contextlib.suppress(FileNotFoundError):  # it has just been given back
                spec = read_spec(path.read_bytes(), path.name).spec
                found |= {f"{spec.kind}={device.name}" for device in spec.devices}
        return found

    def entries(self) -> set[str]:
        """The UIDs in the checkpoint."""
        if not self.checkpoint.exists():
            return set()
        return set(STATE_FORMAT.decode(self.checkpoint.read_bytes()).records)

    def held(self, door: Door) -> list[Hold]:
        if not self.holds_file.exists():
            return []
        content = Format(Content).decode(self.holds_file.read_bytes())
        return [one for one in content.holds if one.door is door]

    def leftovers(self, alive: Iterable[ClaimRef] = ()) -> list[str]:
        """What claims other than these have left on the machine."""
        refs = list(alive)
        uids = {ref.uid for ref in refs}
        cdi = [path.name for path in (self.root / "cdi").rglob("*") if not path.is_dir()]
        found = [f"file {name}" for name in cdi if not any(uid in name for uid in uids)]
        found += [f"entry {uid}" for uid in self.entries() - uids]
        found += [f"hold {one.device} {one.owner}" for one in self.held(Door.DRA) if one.uid not in uids]
        return sorted(found)

    async def wait(
        self, condition: Callable[[], Awaitable[bool]], what: str, seconds: float = WAIT_SECONDS
    ) -> None:
        await until(condition, what, lambda: self.log()[-6000:], seconds)

    async def wait_clean(self, alive: Iterable[ClaimRef] = ()) -> None:
        refs = list(alive)

        async def is_clean() -> bool:
            return not self.leftovers(refs)

        try:
            await self.wait(is_clean, "nothing to be left")
        finally:
            found = self.leftovers(refs)
            assert not found, f"left: {found}\n{self.log()[-9000:]}"


def _claim(ref: ClaimRef) -> Claim:
    return Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid)


@asynccontextmanager
async def dra_machine(
    root: Path, doors: Json | None = None, *, has_kubelet: bool = True
) -> AsyncIterator[DraMachine]:
    """With an API server and a small kubelet; no agent runs yet, and none is left."""
    root.mkdir(parents=True, exist_ok=True)
    async with agent_server(root / "server") as server:
        await server.put_node()
        text = (root / "server/admin.kubeconfig").read_text()
        (root / "kubeconfig").write_text(text.replace(server.client.access.server, server.access.server))
        async with agents_in(root, server, doors) as machine, AsyncExitStack() as stack:
            if has_kubelet:
                await stack.enter_async_context(machine.kubelet.running())
            yield machine


@asynccontextmanager
async def agents_in(root: Path, server: AgentServer, doors: Json | None = None) -> AsyncIterator[DraMachine]:
    """The same at the server of `root/kubeconfig`, and without a kubelet."""
    plugins = root / "kubelet/device-plugins"
    for directory in (plugins, root / "host/dev", root / "kubelet/plugins_registry"):
        directory.mkdir(parents=True)
    (root / "host/dev/null").touch()
    with (root / "zygote.log").open("wb") as log:
        zygote = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.processes.dra_program", str(root)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=Path(__file__).parents[2],
        )
    machine = DraMachine(root, server, SmallKubelet(plugins), zygote, doors or {"*": "dra"})
    machine.configure()
    machine.set_boot("first")
    try:
        yield machine
    finally:
        zygote.kill()  # and the agent with it
        async with asyncio.timeout(60):
            await zygote.wait()
