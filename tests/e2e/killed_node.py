"""A node of an API server whose kubelet is killed: its parts, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import UnavailableError
from dray.kubelet.runtimes.runc import cgroup_of
from dray.wire.connect import connect
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
)
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.deadly import forgive
from tests.e2e.cgroups import cgroups_like
from tests.e2e.claim_driver import ENV, ClaimDriver
from tests.processes.fault_points import DIES, FaultPoints, Target, deaths, write_death
from tests.processes.kubelet_program import TARGET
from tests.waiting import PATIENCE

GPU, GPU_ENV, GPUS = "example.com/gpu", "SIM_RESOURCE_EXAMPLE_COM_GPU", 4
RUNC_CALLS = ("during runc create", "during runc start", "during runc delete")
_RUNC = """#!/bin/sh
# The real runc; where the target names this call, the kubelet dies first. Its lock says who it is.
for word in "$@"; do
    case "$word" in create | start | delete) call="during runc $word"; break ;; esac
done
if [ -n "$call" ] && [ "$(head -n 1 {root}/{target} 2> /dev/null)" = "$call" ]; then
    rm -f {root}/{target}
    echo "{dies}$call" >> {root}/kubelet.log
    kill -9 "$(cat {root}/state/lock)"
fi
exec {runc} "$@"
"""
ROOT_ENV, POD_ENV, PROJECT = "TEST_ROOT", "TEST_POD", Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Seen:
    """A container's first process, with what its environment says that it has. `claims` are pairs of uid and device."""

    pod: str
    pid: int
    gpus: frozenset[str]
    claims: frozenset[tuple[str, str]]


@dataclass
class KilledNode:
    """The kubelet comes and goes; the agent, which serves the GPUs, and the driver stay."""

    root: Path
    runc: Path
    kubeconfig: Path
    driver: ClaimDriver = field(init=False)
    kubelet: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        for name in ("kubelet/device-plugins", "kubelet/plugins_registry", "cdi"):
            (self.root / name).mkdir(parents=True)
        script = _RUNC.format(root=self.root, target=TARGET, dies=DIES, runc=self.runc)
        (self.root / "runc").write_text(script)
        (self.root / "runc").chmod(0o755)
        points = FaultPoints(self.root / TARGET, self._strike)
        place = self.root / "kubelet/plugins_registry/driver-reg.sock"
        self.driver = ClaimDriver(place, self.root / "cdi", self.has_claim, points.reached)

    def _strike(self, place: str) -> None:
        """Called by the driver, in the middle of a call of the kubelet."""
        if self.kubelet is not None:
            write_death(self.log, place)
            self.kubelet.kill()
            self.kubelet.wait(PATIENCE)

    @property
    def log(self) -> Path:
        return self.root / "kubelet.log"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def aim(self, target: Target | None) -> None:
        """Where the kubelet shall die, this one or the next; None: nowhere."""
        path = self.root / TARGET
        target.write(path) if target else path.unlink(missing_ok=True)

    def deaths(self) -> list[str]:
        return deaths(self.log)

    def start(self) -> None:
        forgive(self.root / "state")
        argv = [sys.executable, "-m", "tests.processes.kubelet_program", str(self.root)]
        argv += ["--runc", str(self.root / "runc"), "--kubeconfig", str(self.kubeconfig)]
        with self.log.open("ab") as log:
            self.kubelet = subprocess.Popen(argv, stdout=log, stderr=log, cwd=PROJECT)

    def has_died(self) -> bool:
        return self.kubelet is None or self.kubelet.poll() is not None

    def stop(self) -> None:
        if self.kubelet is not None and self.kubelet.poll() is None:
            self.kubelet.send_signal(signal.SIGTERM)
            self.kubelet.wait(PATIENCE)

    @contextlib.contextmanager
    def agent(self) -> Iterator[None]:
        """The device plugin: simulated GPUs whose ids a container finds in its environment."""
        sim = {"devices": [{"name": "gpu", "count": GPUS, "resourceName": GPU, "numaNodes": 2}]}
        (self.root / "agent.json").write_text(json.dumps({"dray": {"sim": sim}}))
        argv = [sys.executable, "-m", "dray", "agent", "--config", str(self.root / "agent.json")]
        argv += ["--kubelet-dir", str(self.root / "kubelet"), "--host-root", "/", "--metrics-address", "none"]
        argv += ["--device-plugin-dir", str(self.root / "kubelet/device-plugins")]
        argv += ["--state-dir", str(self.root / "agent")]
        with (self.root / "agent.log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)

    def clear(self) -> None:
        """After a test that failed: end what it left."""
        self.stop()
        for item in self.in_runc():
            argv = [str(self.runc), "--root", str(self.state / "containers/runc"), "delete", "--force", item]
            subprocess.run(argv, timeout=30, check=False)
        for place in reversed(self._mounts()):
            subprocess.run(["umount", "--lazy", place], timeout=30, check=False)

    def _mounts(self) -> list[str]:
        places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [place for place in places if place.startswith(f"{self.root.resolve()}/")]

    # What there is.

    def containers(self) -> list[Seen]:
        """All that run, by pod."""
        found = [_seen(int(one), self.root) for one in os.listdir("/proc") if one.isdigit()]
        return sorted((one for one in found if one is not None), key=lambda one: (one.pod, one.pid))

    def has_claim(self, uid: str) -> bool:
        return any(uid == held for one in self.containers() for held, _ in one.claims)

    def in_runc(self) -> dict[str, int]:
        """The containers that runc has, with their first processes."""
        argv = [str(self.runc), "--root", str(self.state / "containers/runc"), "list", "--format", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
        return {one["id"]: one["pid"] for one in json.loads(done.stdout) or () if one["status"] == "running"}

    def pod_resources(self) -> ListPodResourcesResponse:
        async def ask() -> ListPodResourcesResponse:
            async with connect(self.root / "kubelet" / SOCKET) as channel:
                return await PodResourcesClient(channel).list(ListPodResourcesRequest())

        return asyncio.run(ask())

    def is_serving(self) -> bool:
        """Whether the plugin is back with the kubelet of now: before that it rejects new pods."""

        async def ask() -> int:
            async with connect(self.root / "kubelet" / SOCKET) as channel:
                told = await PodResourcesClient(channel).get_allocatable_resources(
                    AllocatableResourcesRequest()
                )
                return sum(len(one.device_ids) for one in told.devices if one.resource_name == GPU)

        try:
            return asyncio.run(ask()) == GPUS
        except UnavailableError:
            return False

    def granted(self) -> dict[str, frozenset[str]]:
        """The checkpoint: GPUs by the pod's uid, all of its containers together."""
        document = json.loads((self.root / "kubelet/device-plugins/kubelet_internal_checkpoint").read_text())
        found: dict[str, frozenset[str]] = {}
        for entry in document["Data"]["PodDeviceEntries"] or ():
            ids = frozenset(one for each in entry["DeviceIDs"].values() for one in each)
            found[entry["PodUID"]] = found.get(entry["PodUID"], frozenset()) | ids
        return found

    def claim_record(self) -> dict[str, frozenset[str]]:
        """`dra_manager_state`: uids of pods by the claim's uid."""
        path = self.root / "kubelet/dra_manager_state"
        if not path.exists():
            return {}
        rows = json.loads(json.loads(path.read_text())["Data"])["ClaimInfoStateList"] or ()
        return {row["ClaimUID"]: frozenset(row["PodUIDs"]) for row in rows}

    def records(self) -> frozenset[str]:
        """Uids of the pods that the kubelet has taken and not ended."""
        found = set()
        for path in (self.state / "records").glob("*.json"):
            with contextlib.suppress(FileNotFoundError):
                document = json.loads(path.read_text())
                if not document["ended"] and document["rejection"] is None:
                    found.add(path.stem)
        return frozenset(found)

    def left_behind(self) -> list[str]:
        """What may not be there any more when no pod is: mounts, cgroups, containers, keepers, files."""
        group = cgroup_of(self.state / "containers", "").strip("/")
        groups = [str(one) for one in cgroups_like(f"{group}*")]
        found = [f"mount {one}" for one in self._mounts()]
        found += [f"cgroup {one}" for one in groups] + [f"runc {one}" for one in self.in_runc()]
        found += [f"process {one}" for one in _mentioning(str(self.state / "containers"))]
        for name in ("containers/containers", "containers/sandboxes", "containers/trash", "records", "pods"):
            found += [str(one) for one in sorted((self.state / name).glob("*"))]
        return found + [str(one) for one in (self.root / "cdi").iterdir()]


def _seen(pid: int, root: Path) -> Seen | None:
    """None for what is not the first process of a container of this node."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/environ").read_text(errors="replace")
        if f"{ROOT_ENV}={root}" not in text or not _is_first(pid):
            return None
        found = dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
        claims = [value.split("/") for name, value in found.items() if name.startswith(ENV)]
        gpus = frozenset(filter(None, found.get(GPU_ENV, "").split(",")))
        return Seen(found[POD_ENV], pid, gpus, frozenset((uid, device) for uid, device in claims))
    return None


def _is_first(pid: int) -> bool:
    """Whether it is process 1 of a namespace below ours, and not only waits to be reaped."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return fields["NSpid"].split()[1:] == ["1"] and not fields["State"].strip().startswith(("Z", "X"))


def _mentioning(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
                found += [f"{entry.name} {command}"] if text in command else []
    return found
