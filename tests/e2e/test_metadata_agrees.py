"""Metadata files (KEP-5304) of claims that we prepare are read by Kubernetes' own decoder and by KubeVirt's virt-launcher.

No kubelet, agent or container is there: `dray.dra`'s Preparer prepares the claims in this process, for drivers that add
nothing of their own, and of devices read from made-up machines. The reference implementation of CDI says which mounts a
container would get; links stand for them, and the readers look where they always look, below the root of a container.
test_dra_agent.py reads the files in containers of a real node.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import to_raw
from dray.api.resource import ResourceClaim
from dray.api.resource.slice import DeviceAttribute
from dray.dra.claims.books import PrepareOptions
from dray.dra.claims.metadata import KNOWN
from dray.dra.claims.prepare import Preparer, open_preparer
from dray.dra.names import driver_name
from dray.dra.slices.view import pool_devices
from dray.drivers.contract import Device, Health
from tests.campaign import seeds
from tests.dra.prepare_node import POOL, Node, PlainDriver, claim_of, ref_of
from tests.drivers.machine import build
from tests.drivers.nvidia.cards import watched
from tests.oracle_cdi.program import CdiOracle
from tests.oracle_driver.program import DriverOracle
from tests.waiting import PATIENCE

Json = dict[str, Any]
KINDS = ("pci", "mdev", "nvidia")
DRIVERS = {kind: driver_name(kind, "dray.internal") for kind in KINDS}


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Device]]:
    """By kind: those that a VM can get of a machine with everything, and of one with eight GPUs."""
    path = tmp_path_factory.mktemp("machines")
    machine = build(path / "everything")
    gpus = watched(path / "gpus", "eight-h100", pass_through=True).devices
    found = {
        "pci": [*machine.look("pci").values()],
        "mdev": [*machine.look("mdev").values()],
        "nvidia": [one for one in gpus if one.attributes["type"] == "vfio"],
    }
    # The nodes of the machines are not needed: what a driver gives beside the metadata is another matter.
    return {
        kind: [replace(one, paths=()) for one in some if one.health is Health.HEALTHY]
        for kind, some in found.items()
    }


@dataclass(frozen=True)
class Wish:
    """One request of a claim; `name` may be `REQUEST/SUBREQUEST`."""

    name: str
    kind: str
    devices: tuple[Device, ...]

    @property
    def reason(self) -> str:
        """Why KubeVirt gives none of it to a VM: limits of its own."""
        if "/" in self.name:
            return "not found in metadata"
        return "only supports exactly one device" if len(self.devices) > 1 else ""

    def results(self) -> list[Json]:
        driver = DRIVERS[self.kind]
        return [{"driver": driver, "request": self.name, "device": one.name} for one in self.devices]

    def document(self) -> Json:
        """What the metadata says of it."""
        devices = [
            {"driver": DRIVERS[self.kind], "pool": POOL, "name": one.name, "attributes": _raw(one, self.kind)}
            for one in self.devices
        ]
        return {"name": self.name, "devices": devices}


def _attributes(device: Device, kind: str) -> Mapping[str, DeviceAttribute]:
    (shown,) = pool_devices([device], DRIVERS[kind]).items
    return shown.attributes


def _raw(device: Device, kind: str) -> Json:
    return {name: to_raw(one) for name, one in _attributes(device, kind).items()}


@dataclass(frozen=True)
class Claim:
    """As the pod names it (`in_pod`), and as it is; `is_made`: from a template."""

    in_pod: str
    is_made: bool
    object: ResourceClaim
    wishes: tuple[Wish, ...]

    @property
    def reference(self) -> Json:
        """The pod's entry for it, and the VM's."""
        name = self.object.metadata.name
        named = {"resourceClaimTemplateName": "any"} if self.is_made else {"resourceClaimName": name}
        return {"name": self.in_pod, **named}

    def document(self, wish: Wish) -> Json:
        meta = self.object.metadata
        ids = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "generation": 1}
        kind = {"kind": "DeviceMetadata", "apiVersion": "metadata.resource.k8s.io/v1alpha1"}
        template = {"podClaimName": self.in_pod} if self.is_made else {}
        return {**kind, "metadata": ids, **template, "requests": [wish.document()]}


def random_claims(rng: random.Random, devices: Mapping[str, Sequence[Device]]) -> Iterator[Claim]:
    """No device is in two of them."""
    left = {kind: rng.sample(some, len(some)) for kind, some in devices.items()}
    for number in range(rng.randint(1, 3)):
        wishes = tuple(_random_wishes(rng, left))
        if wishes:
            is_made, in_pod = rng.random() < 0.5, f"entry-{number}"
            name = rng.choice([f"vm-{in_pod}-x7k2p", f"claim.{number}", in_pod])
            results = [one for wish in wishes for one in wish.results()]
            made = claim_of(number, *results, name=name, pod_claim=in_pod if is_made else "")
            yield Claim(in_pod, is_made, made, wishes)


def _random_wishes(rng: random.Random, left: Mapping[str, list[Device]]) -> Iterator[Wish]:
    for number in range(rng.randint(1, 4)):
        kind = rng.choice(KINDS)
        some = [left[kind].pop() for _ in range(min(len(left[kind]), rng.choice([1, 1, 1, 2, 3])))]
        if some:
            yield Wish(f"r{number}" + rng.choice(["", "", "", "", "/sub"]), kind, tuple(some))


@dataclass(frozen=True)
class Container:
    """A node where claims are prepared, and the root of a container that has them."""

    path: Path
    versions: tuple[str, ...] = KNOWN

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def cdi_dir(self) -> Path:
        return self.path / "cdi"

    async def prepare(self, claims: Sequence[Claim]) -> list[str]:
        """The names of CDI devices that the kubelet is answered, by a driver for each kind."""
        answered: list[str] = []
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            for kind in KINDS:
                mine = [claim for claim in claims if any(wish.kind == kind for wish in claim.wishes)]
                preparer = await stack.enter_async_context(self.preparer(kind, mine))
                for claim in mine:
                    prepared = await preparer.prepare(claim.object)
                    answered += [name for one in prepared for name in one.cdi_ids]
        return answered

    def preparer(self, kind: str, claims: Sequence[Claim]) -> AbstractAsyncContextManager[Preparer]:
        wishes = [wish for claim in claims for wish in claim.wishes if wish.kind == kind]
        known = {one.name: one for wish in wishes for one in wish.devices}
        around = replace(
            Node(self.path / kind).surroundings(),
            driver=lambda: PlainDriver(kind),
            find=known.get,
            attributes=lambda device: _attributes(device, kind),
        )
        data_dir = self.path / "plugins" / DRIVERS[kind]
        data_dir.parent.mkdir(exist_ok=True)
        options = PrepareOptions(DRIVERS[kind], POOL, data_dir, self.cdi_dir, "boot", self.versions)
        return open_preparer(options, around)

    def mount(self, oracle: CdiOracle, names: Sequence[str]) -> None:
        asked = {"ask": "registry", "dirs": [str(self.cdi_dir)], "oci": {}, "devices": list(names)}
        answer = oracle.ask(asked)
        assert (answer["error"], answer["faults"]) == ("", {})
        for mount in answer["oci"]["mounts"]:
            inside = self.root / mount["destination"].removeprefix("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(mount["source"])

    def look(self, oracle: DriverOracle, claim: Claim, wish: Wish) -> Json:
        request = wish.name.partition("/")[0]
        asked = {"root": str(self.root), "driver": DRIVERS[wish.kind], "request": request}
        return oracle.ask({"ask": "metadata", **asked, "claim": claim.reference})


def check(claim: Claim, wish: Wish, answer: Json) -> str:
    """What was seen, for the record."""
    assert answer["error"] == "", answer
    answer["document"]["metadata"].pop("creationTimestamp", None)
    assert answer["document"] == claim.document(wish)
    wanted = "mdev" if wish.kind == "mdev" else "pci", wish.devices[0].addresses[0]
    for given in (answer["gpu"], answer["hostDevice"]):
        if wish.reason:
            assert wish.reason in given["error"]
        else:
            assert given["error"] == ""
            assert (given["type"], _address(given)) == wanted
    return wish.reason or f"{wish.kind}, {'template' if claim.is_made else 'named'}"


def _address(given: Json) -> str:
    address = given["address"]
    if given["type"] == "mdev":
        return str(address["UUID"])
    domain, bus, slot, function = (
        address[name].removeprefix("0x") for name in ("Domain", "Bus", "Slot", "Function")
    )
    return f"{domain}:{bus}:{slot}.{function}"


async def test_random_claims(devices: dict[str, list[Device]], tmp_path: Path) -> None:
    seen = Counter[str]()
    with CdiOracle() as cdi, DriverOracle() as oracle:
        for seed in seeds(20, 1000):
            claims = list(random_claims(random.Random(seed), devices))
            container = Container(tmp_path / str(seed))
            container.path.mkdir()
            container.mount(cdi, await container.prepare(claims))
            for claim in claims:
                for wish in claim.wishes:
                    seen[check(claim, wish, container.look(oracle, claim, wish))] += 1
    print(dict(seen))
    assert len(seen) == 2 * len(KINDS) + 2, "or the cases would show little"


async def test_why_the_older_version_is_written_too(devices: dict[str, list[Device]], tmp_path: Path) -> None:
    """Kubernetes 1.36 and KubeVirt 1.9 know no other, and pass over the newer one."""
    wish = Wish("r", "pci", (devices["pci"][0],))
    claim = Claim("entry", True, claim_of(1, *wish.results(), pod_claim="entry"), (wish,))
    with CdiOracle() as cdi, DriverOracle() as oracle:
        for number, versions in enumerate((("v1beta1",), KNOWN)):
            container = Container(tmp_path / str(number), versions)
            container.path.mkdir()
            container.mount(cdi, await container.prepare([claim]))
            answer = container.look(oracle, claim, wish)
            errors = [answer["error"], *(answer[reader]["error"] for reader in ("gpu", "hostDevice"))]
            if versions is KNOWN:
                assert errors == [""] * 3
            else:
                assert all("no compatible metadata version found in stream" in one for one in errors)


async def test_an_unprepared_claim_is_not_read(devices: dict[str, list[Device]], tmp_path: Path) -> None:
    wish = Wish("r", "mdev", (devices["mdev"][0],))
    claim = Claim("entry", False, claim_of(1, *wish.results()), (wish,))
    container = Container(tmp_path)
    with CdiOracle() as cdi, DriverOracle() as oracle:
        container.mount(cdi, await container.prepare([claim]))
        assert container.look(oracle, claim, wish)["error"] == ""
        async with asyncio.timeout(PATIENCE), container.preparer("mdev", [claim]) as preparer:
            await preparer.unprepare(ref_of(claim.object))
        answer = container.look(oracle, claim, wish)
    assert "no such file" in answer["error"]
    assert "failed to" in answer["gpu"]["error"]
    assert [path for path in container.cdi_dir.rglob("*") if not path.is_dir()] == []
