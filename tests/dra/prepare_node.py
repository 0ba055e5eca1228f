"""A node for the tests of preparing: files that stand for devices, a driver that changes their modes, a ledger on disk.

All of it is in one directory, so that another process, or the same after a kill, finds it again.
"""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dray.api.codec import view
from dray.api.resource import ResourceClaim
from dray.api.resource.slice import DeviceAttribute
from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.dra.claims.books import PrepareOptions, Surroundings
from dray.dra.claims.claim_files import ClaimFiles
from dray.dra.claims.prepare import Preparer, open_preparer
from dray.dra.claims.state import STATE_FORMAT, State
from dray.dra.parcels import ClaimRef
from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Asked, DescriptorPass, Device, Discovery, Health, Prepared
from dray.errors import ConflictError, HardwareError, InvalidError
from dray.hardware.change import Chmod, HostChange
from dray.hardware.change.executor import Executor
from dray.hardware.host_root import HostRoot, Place
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.checkpoint import SetAside
from dray.runtime.threads import Threads

DRIVER, POOL, KIND = "test.dray.internal", "node-1", "test"
FREE, GIVEN = 0o600, 0o660
"""The mode of a device that nobody has, and of one that a claim has."""


def uid_of(number: int) -> str:
    return f"{number:08x}-1111-4222-8333-444455556666"


@dataclass(frozen=True)
class ModeDriver:
    """Gives a device by its mode. Parameters: `{"mode": 432}`, `{"fail": "why"}`."""

    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        return Discovery((), (), ())

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        nodes = tuple(DeviceNode(path, path) for device in devices for path in device.paths)
        ids = ",".join(device.id for device in devices)
        edits = ContainerEdits(env=((f"TEST_{resource.upper().replace('/', '_')}", ids),), device_nodes=nodes)
        return Prepared(edits, required=tuple(path for device in devices for path in device.paths))

    def check_parameters(self, parameters: Mapping[str, Any]) -> None:
        if unknown := sorted(parameters.keys() - {"mode", "fail"}):
            raise InvalidError(f"parameters.{unknown[0]}: is not known", field=f"parameters.{unknown[0]}")

    def prepare_claim(self, asked: Asked) -> Prepared:
        given: dict[str, Any] = {}
        for parameters in asked.parameters:
            given |= parameters
        prepared = self.prepare(asked.label, asked.devices)
        if asked.admin_access:
            return prepared
        mode = given.get("mode", GIVEN)
        changes = tuple(Chmod(path, mode) for device in asked.devices for path in device.paths)

        def finish(root: HostRoot) -> ContainerEdits:
            if "fail" in given:
                raise HardwareError(str(given["fail"]))
            return ContainerEdits(env=((f"MODE_{asked.devices[0].id}", f"{mode:o}"),))

        return replace(prepared, changes=changes, finish=finish)

    def release_claim(self, asked: Asked) -> tuple[HostChange, ...]:
        if asked.admin_access:
            return ()
        return tuple(Chmod(path, FREE) for device in asked.devices for path in device.paths)


@dataclass(frozen=True)
class PlainDriver:
    """One without claims: `prepare` alone."""

    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        return Discovery((), (), ())

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        return ModeDriver().prepare(resource, devices)


@dataclass(frozen=True)
class PassingDriver(PlainDriver):
    """One whose containers take a descriptor from a socket."""

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        passes = tuple(
            DescriptorPass(device.paths[0], "/run/pass", device.id, "/pass.sock") for device in devices
        )
        return replace(super().prepare(resource, devices), passes=passes)


@dataclass
class Sockets:
    """Whoever serves descriptors: another socket each time."""

    offered: list[str] = field(default_factory=list)

    def check(self, wanted: DescriptorPass) -> None:
        pass

    async def offer(self, wanted: DescriptorPass) -> Mount:
        self.offered.append(f"{wanted.directory}/{wanted.name}-{len(self.offered)}.sock")
        return Mount(self.offered[-1], wanted.container_path)


class FileDoor:
    """The ledger: a file for each claim, and one for each device that the other door gave away."""

    def __init__(self, directory: Path) -> None:
        self.claims, self.plugin = directory / "claims", directory / "plugin"
        for one in (self.claims, self.plugin):
            if not one.exists():
                one.mkdir(parents=True, exist_ok=True)

    async def take(self, claim: ClaimRef, devices: Collection[Device]) -> None:
        for device in devices:
            if (self.plugin / device.id).exists():
                raise ConflictError(f"device {device.id} is held by a pod through the device plugin")
        fresh = self.claims / f".{claim.uid}"
        fresh.write_text(json.dumps(sorted(device.id for device in devices)))
        fresh.rename(self.claims / claim.uid)

    def restore(self, claim: ClaimRef, devices: Collection[Device]) -> None:
        (self.claims / claim.uid).write_text(json.dumps(sorted(device.id for device in devices)))

    async def give_back(self, claim: ClaimRef) -> None:
        (self.claims / claim.uid).unlink(missing_ok=True)


@dataclass
class Node:
    """One machine. `devices` may be altered between two claims."""

    root: Path
    boot_id: str = "boot-1"
    versions: tuple[str, ...] = ("v1alpha1",)
    driver: Any = field(default_factory=ModeDriver)
    lock_limit: float = 10.0
    devices: dict[str, Device] = field(default_factory=dict)
    lost: list[SetAside] = field(default_factory=list)
    sockets: Sockets = field(default_factory=Sockets)

    def __post_init__(self) -> None:
        for directory in (self.data_dir.parent, self.cdi_dir.parent, self.host / "dev"):
            directory.mkdir(parents=True, exist_ok=True)
        FileDoor(self.root / "ledger")

    @property
    def host(self) -> Path:
        return self.root / "host"

    @property
    def data_dir(self) -> Path:
        return self.root / "kubelet" / "plugins" / DRIVER

    @property
    def cdi_dir(self) -> Path:
        return self.root / "run" / "cdi"

    @property
    def metadata_dir(self) -> Path:
        return self.cdi_dir / f"{DRIVER}_metadata"

    @property
    def door(self) -> FileDoor:
        return FileDoor(self.root / "ledger")

    @property
    def checkpoint(self) -> Path:
        return self.data_dir / "prepared-claims"

    def add(self, name: str, **more: Any) -> Device:
        path = f"/dev/{name}"
        if not (self.host / path[1:]).exists():
            (self.host / path[1:]).touch(FREE)
        facts: dict[str, Any] = {"attributes": {"model": "T-1", "index": len(self.devices)}, **more}
        device = Device(name, KIND, "", Health.HEALTHY, paths=(path,), **facts)
        self.devices[name] = device
        return device

    def options(self) -> PrepareOptions:
        return PrepareOptions(
            DRIVER, POOL, self.data_dir, self.cdi_dir, self.boot_id, self.versions, self.lock_limit
        )

    def surroundings(
        self, reached: Callable[[str], None] = lambda _: None, clock: Clock | None = None
    ) -> Surroundings:
        threads = Threads()
        executor = Executor(self.host, audit=lambda _: None, isolate=False)

        async def undo(changes: Sequence[HostChange]) -> None:
            await threads.run(lambda: executor.apply_all(changes), doing="undo", seconds=10)

        return Surroundings(
            driver=lambda: self.driver,
            find=self.devices.get,
            attributes=attributes_of,
            carry_out=HostWork(HostRoot(self.host), executor, threads, self.sockets),
            undo=undo,
            door=self.door,
            threads=threads,
            clock=clock or SystemClock(),
            lost=self.lost.append,
            reached=reached,
        )

    @asynccontextmanager
    async def serving(self, reached: Callable[[str], None] = lambda _: None) -> AsyncIterator[Preparer]:
        async with asyncio.timeout(60), open_preparer(self.options(), self.surroundings(reached)) as preparer:
            yield preparer

    def state(self) -> State:
        return STATE_FORMAT.decode(self.checkpoint.read_bytes()) if self.checkpoint.exists() else State()

    def cdi_files(self) -> list[str]:
        paths = self.cdi_dir.iterdir() if self.cdi_dir.exists() else ()
        return sorted(path.name for path in paths if path != self.metadata_dir)

    def cdi_file(self, uid: str) -> Path:
        return self.cdi_dir / ClaimFiles(DRIVER, self.cdi_dir).name(uid)

    def metadata_files(self) -> list[str]:
        paths = self.metadata_dir.iterdir() if self.metadata_dir.exists() else ()
        return sorted(path.name for path in paths)

    def given(self) -> list[str]:
        """Devices that the host was changed for."""
        nodes = sorted((self.host / "dev").iterdir())
        return [node.name for node in nodes if stat.S_IMODE(node.stat().st_mode) != FREE]

    def holders(self) -> list[str]:
        return sorted(path.name for path in self.door.claims.iterdir() if not path.name.startswith("."))

    def leaks(self) -> dict[str, Any]:
        """What is there though no claim is; empty when all is well."""
        found = {
            "entries": sorted(self.state().records),
            "cdi": self.cdi_files(),
            "metadata": self.metadata_files(),
            "given": self.given(),
            "holders": self.holders(),
            "temporary": [str(path) for path in self.root.rglob("*.tmp")],
        }
        return {what: things for what, things in found.items() if things}


def attributes_of(device: Device) -> Mapping[str, DeviceAttribute]:
    """As the slice would show them."""
    return {name: view({_word(value): value}, DeviceAttribute) for name, value in device.attributes.items()}


def _word(value: object) -> str:
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"


def claim_of(
    number: int,
    *results: Any,
    config: Sequence[Mapping[str, Any]] = (),
    pod_claim: str = "",
    name: str = "",
    **more: Any,
) -> ResourceClaim:
    """A claim allocated to these: names of devices (request `r`), or whole results."""
    whole = [{"request": "r", "device": one} if isinstance(one, str) else one for one in results]
    allocated = [{"driver": DRIVER, "pool": POOL, **one} for one in whole]
    annotations = {"resource.kubernetes.io/pod-claim-name": pod_claim} if pod_claim else {}
    raw = {
        "metadata": {
            "name": name or f"claim-{number}",
            "namespace": "default",
            "uid": uid_of(number),
            "annotations": annotations,
            **more,
        },
        "status": {"allocation": {"devices": {"results": allocated, "config": list(config)}}},
    }
    return view(raw, ResourceClaim)


def ref_of(claim: ResourceClaim) -> ClaimRef:
    meta = claim.metadata
    return ClaimRef(meta.namespace, meta.name, meta.uid)


def parameters(
    values: Any, *requests: str, source: str = "FromClaim", driver: str = DRIVER
) -> dict[str, Any]:
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": driver, "parameters": values},
    }
