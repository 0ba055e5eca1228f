from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.cdi.registry import read_registry
from dray.dra.claims.prepare import open_preparer
from dray.dra.names import device_name
from dray.dra.parcels import PreparedDevice
from dray.dra.slices.view import pool_devices
from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Health
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices
from dray.errors import ConflictError, HardwareError, InvalidError, NotFoundError, UnavailableError
from dray.hardware.change.executor import Executor
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import SystemClock
from dray.runtime.threads import Threads
from tests.dra.prepare_node import (
    DRIVER,
    FREE,
    GIVEN,
    POOL,
    Node,
    PassingDriver,
    PlainDriver,
    claim_of,
    parameters,
    ref_of,
    uid_of,
)

SHARE = "0000000{}-aaaa-4bbb-8ccc-ddddeeeeffff"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    for index in range(4):
        node.add(f"gpu-{index}")
    return node


def cdi(claim: int, request: str = "r") -> str:
    return f"k8s.{DRIVER}/claim={uid_of(claim)}-{request}"


def metadata(claim: int, request: str = "r") -> str:
    return f"{DRIVER}/metadata={uid_of(claim)}_{request}"


async def test_claims_are_known_from_their_beginning_to_their_end(node: Node) -> None:
    async with node.serving() as preparer:
        assert list(preparer.known) == []
        for number in (1, 2):
            await preparer.prepare(claim_of(number, f"gpu-{number}"))
        assert {ref.uid for ref in preparer.known} == {uid_of(1), uid_of(2)}
        await preparer.unprepare(ref_of(claim_of(1)))
        assert [ref.uid for ref in preparer.known] == [uid_of(2)]


async def test_a_claim_is_prepared_and_given_back(node: Node) -> None:
    claim = claim_of(1, "gpu-0", "gpu-1")
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim)
        assert answer == (
            PreparedDevice(("r",), POOL, "gpu-0", (cdi(1), metadata(1))),
            PreparedDevice(("r",), POOL, "gpu-1"),
        )
        found = read_registry([node.cdi_dir]).resolve([cdi(1), metadata(1)])
        edits = found[0].device.container_edits
        assert edits.env == ("TEST_CLAIM-1_R=gpu-0,gpu-1", "MODE_gpu-0=660")
        assert [one.path for one in edits.device_nodes] == ["/dev/gpu-0", "/dev/gpu-1"]
        assert found[0].spec.version == "0.6.0"
        assert node.given() == ["gpu-0", "gpu-1"]
        assert node.holders() == [uid_of(1)]
        assert await preparer.prepare(claim) == answer
        await preparer.unprepare(ref_of(claim))
        assert node.leaks() == {}
        await preparer.unprepare(ref_of(claim))
        assert await preparer.prepare(claim) == answer


async def test_another_process_answers_the_same(node: Node) -> None:
    claim = claim_of(1, "gpu-0")
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim)
    node.devices.clear()
    async with node.serving() as preparer:
        assert await preparer.prepare(claim) == answer
        await preparer.unprepare(ref_of(claim))
    assert node.leaks() == {}


@pytest.mark.parametrize("harm", ["missing", "different", "link", "no directory"])
async def test_files_are_made_again(node: Node, harm: str) -> None:
    claim = claim_of(1, "gpu-0")
    async with node.serving() as preparer:
        await preparer.prepare(claim)
        files = {path: path.read_bytes() for path in node.cdi_dir.rglob("*") if path.is_file()}
        assert len(files) == 3
        for path in files:
            path.unlink()
            if harm == "different":
                path.write_text("---\n{}\n")
            elif harm == "link":
                (node.root / "elsewhere").write_text("mine")
                path.symlink_to(node.root / "elsewhere")
        if harm == "no directory":
            shutil.rmtree(node.cdi_dir)
        await preparer.prepare(claim)
        assert {path: path.read_bytes() for path in files} == files
        if harm == "link":
            assert (node.root / "elsewhere").read_text() == "mine"


async def test_one_device_is_never_given_twice(node: Node) -> None:
    first, second = claim_of(1, "gpu-0"), claim_of(2, "gpu-1", "gpu-0")
    async with node.serving() as preparer:
        await preparer.prepare(first)
        with pytest.raises(ConflictError, match="gpu-0 is prepared for claim default/claim-1"):
            await preparer.prepare(second)
        assert node.given() == ["gpu-0"]
        assert node.holders() == [uid_of(1)]
        await preparer.unprepare(ref_of(first))
        await preparer.prepare(second)
        await preparer.unprepare(ref_of(second))
    assert node.leaks() == {}


async def test_a_part_in_common_counts_not_the_name(node: Node) -> None:
    node.add("whole", hardware=("pci:0000:05:00.0", "slice:0", "slice:1"))
    node.add("half", hardware=("slice:1",))
    node.add("other", hardware=("slice:2",))
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "half"))
        await preparer.prepare(claim_of(2, "other"))
        with pytest.raises(ConflictError, match="whole is prepared, with half, for claim default/claim-1"):
            await preparer.prepare(claim_of(3, "whole"))
        with pytest.raises(InvalidError, match="or a part of it, more than once"):
            await preparer.prepare(claim_of(4, "whole", "half"))


async def test_shares_and_admin_access_are_for_many(node: Node) -> None:
    def share(number: int) -> dict[str, Any]:
        return {"request": "r", "device": "gpu-0", "shareID": SHARE.format(number)}

    admin = {"request": "admin", "device": "gpu-0", "adminAccess": True}
    async with node.serving() as preparer:
        (answer,) = await preparer.prepare(claim_of(1, share(1)))
        assert answer.share_id == SHARE.format(1)
        await preparer.prepare(claim_of(2, share(2)))
        await preparer.prepare(claim_of(3, admin))
        with pytest.raises(ConflictError):
            await preparer.prepare(claim_of(4, "gpu-0"))
        node.devices["gpu-0"] = replace(node.devices["gpu-0"], health=Health.UNHEALTHY, reason="XID 79")
        await preparer.prepare(claim_of(5, admin))
        with pytest.raises(HardwareError, match="gpu-0 of claim default/claim-6 is not healthy: XID 79"):
            await preparer.prepare(claim_of(6, share(6)))
        assert (node.door.claims / uid_of(3)).read_text() == "[]"


async def test_another_allocation_of_the_same_claim_is_refused(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
        with pytest.raises(ConflictError, match="other devices than it has now"):
            await preparer.prepare(claim_of(1, "gpu-1"))
        await preparer.unprepare(ref_of(claim_of(1)))
        (answer,) = await preparer.prepare(claim_of(1, "gpu-1"))
        assert answer.device == "gpu-1"


async def test_what_fails_leaves_nothing(node: Node) -> None:
    good = {"request": "a", "device": "gpu-0"}
    bad = {"request": "b", "device": "gpu-1"}
    claim = claim_of(1, good, bad, config=[parameters({"fail": "no power"}, "b")])
    async with node.serving() as preparer:
        with pytest.raises(HardwareError, match="no power"):
            await preparer.prepare(claim)
        assert node.leaks() == {}
        assert len(await preparer.prepare(claim_of(1, good, bad))) == 2


async def test_the_other_door_comes_first(node: Node) -> None:
    """Nothing is undone on a device that somebody else has."""
    (node.door.plugin / "gpu-0").touch()
    (node.host / "dev/gpu-0").chmod(GIVEN)
    async with node.serving() as preparer:
        with pytest.raises(ConflictError, match="held by a pod"):
            await preparer.prepare(claim_of(1, "gpu-0"))
    assert node.given() == ["gpu-0"]
    (node.host / "dev/gpu-0").chmod(FREE)
    assert node.leaks() == {}


async def test_a_failed_undo_is_done_at_the_next_try(node: Node) -> None:
    claim = claim_of(1, "gpu-0")
    away = node.host / "dev/away"
    async with node.serving() as preparer:
        await preparer.prepare(claim)
        (node.host / "dev/gpu-0").rename(away)
        with pytest.raises(NotFoundError):
            await preparer.unprepare(ref_of(claim))
        assert list(node.state().records) == [uid_of(1)]
        away.rename(node.host / "dev/gpu-0")
        await preparer.unprepare(ref_of(claim))
    assert node.leaks() == {}


async def test_requests_subrequests_and_parameters(node: Node) -> None:
    claim = claim_of(
        1,
        {"request": "a/big", "device": "gpu-0"},
        {"request": "b", "device": "gpu-1"},
        {"request": "c", "device": "foreign", "driver": "other.example.com", "pool": "elsewhere"},
        pod_claim="gpus",
        config=[
            parameters({"mode": 0o640}, "a"),
            parameters({"mode": 0o644}, source="FromClass"),
            parameters({"mode": "not ours"}, driver="other.example.com"),
            parameters({"mode": 0o606}, "a/small"),
        ],
    )
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim)
        assert [(one.requests, one.device, one.cdi_ids) for one in answer] == [
            (("a",), "gpu-0", (cdi(1, "a"), metadata(1, "a"))),
            (("b",), "gpu-1", (cdi(1, "b"), metadata(1, "b"))),
        ]
        modes = [(node.host / "dev" / one).stat().st_mode & 0o777 for one in ("gpu-0", "gpu-1")]
        assert modes == [0o640, 0o644]
        spec = yaml.safe_load(node.cdi_file(uid_of(1)).read_text())
        assert spec["devices"][0]["containerEdits"]["env"][0] == "TEST_GPUS_A=gpu-0"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"colour": 1}, "request r: parameters.colour: is not known"),
        ([1], "it must be a JSON object"),
        (None, "it must be a JSON object"),
        ({"mode": "x" * 11_000}, "more than the limit of 10240"),
    ],
)
async def test_bad_parameters_are_refused(node: Node, values: Any, text: str) -> None:
    async with node.serving() as preparer:
        with pytest.raises(InvalidError, match=text):
            await preparer.prepare(claim_of(1, "gpu-0", config=[parameters(values)]))
    assert node.leaks() == {}


async def test_a_kind_without_parameters_refuses_them(node: Node) -> None:
    node.driver = PlainDriver()
    async with node.serving() as preparer:
        with pytest.raises(InvalidError, match="take no parameters"):
            await preparer.prepare(claim_of(1, "gpu-0", config=[parameters({})]))
        await preparer.prepare(claim_of(1, "gpu-0"))
        await preparer.unprepare(ref_of(claim_of(1)))
    assert node.leaks() == {}


async def test_descriptors_are_served_anew_by_another_process(node: Node) -> None:
    """The sockets of the process before are gone; what a container mounts must be there."""
    node.driver = PassingDriver()
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim_of(1, "gpu-0"))
    async with node.serving() as preparer:
        assert await preparer.prepare(claim_of(1, "gpu-0")) == answer
    (device,) = read_registry([node.cdi_dir]).resolve([cdi(1)])
    (mount,) = device.device.container_edits.mounts
    assert [mount.host_path] == node.sockets.offered[-1:] == ["/run/pass/gpu-0-1.sock"]


async def test_a_device_that_is_not_there(node: Node) -> None:
    async with node.serving() as preparer:
        with pytest.raises(NotFoundError, match="gpu-9 of claim default/claim-1 is not on this node"):
            await preparer.prepare(claim_of(1, "gpu-9"))
    assert node.leaks() == {}


async def test_a_linked_cdi_directory_is_refused(node: Node, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    node.cdi_dir.symlink_to(outside)
    async with node.serving() as preparer:
        for _ in range(2):
            with pytest.raises(Exception, match="symbolic link"):
                await preparer.prepare(claim_of(1, "gpu-0"))
    assert list(outside.iterdir()) == []
    node.cdi_dir.unlink()
    assert node.leaks() == {}


@pytest.mark.parametrize("what", ["locks", "metadata"])
async def test_links_inside_our_directories_are_refused(node: Node, tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = {"locks": node.data_dir / "locks", "metadata": node.metadata_dir}[what]
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    async with node.serving() as preparer:
        with pytest.raises(Exception, match="symbolic link"):
            await preparer.prepare(claim_of(1, "gpu-0"))
    assert list(outside.iterdir()) == []
    assert node.given() == []


async def test_simulated_devices_of_a_real_host(tmp_path: Path) -> None:
    """A kind as the agent has it: the inventory's devices under their names in slices, nodes of this machine."""
    entry = SimDevices(name="gpu", count=2, resource_name="example.com/gpu")
    (driver,) = sim_drivers(SimConfig(devices=(entry,)), SystemClock())
    node = Node(tmp_path, driver=driver)
    root = HostRoot(Path("/"))
    found = driver.discover(root).devices
    node.devices.update({device_name(device): device for device in found})
    threads = Threads()
    around = replace(
        node.surroundings(),
        carry_out=HostWork(root, Executor(Path("/"), audit=lambda _: None), threads),
        attributes=lambda device: pool_devices([device], DRIVER).items[0].attributes,
    )
    async with open_preparer(node.options(), around) as preparer:
        answer = await preparer.prepare(claim_of(1, *node.devices))
        (device,) = read_registry([node.cdi_dir]).resolve(answer[0].cdi_ids[:1])
        nodes = device.device.container_edits.device_nodes
        assert [(one.host_path, one.path) for one in nodes] == [
            ("/dev/null", "/dev/dray-sim/gpu-0"),
            ("/dev/null", "/dev/dray-sim/gpu-1"),
        ]
        told = json.loads((node.metadata_dir / f"{uid_of(1)}_r.json").read_text())
        attributes = told["requests"][0]["devices"][0]["attributes"]
        assert attributes["model"] == {"string": "SimGPU-80"}
        assert "resource.kubernetes.io/pcieRoot" in attributes
        await preparer.unprepare(ref_of(claim_of(1)))
    assert node.leaks() == {}


async def test_many_at_once(node: Node) -> None:
    for index in range(25):
        node.add(f"one-{index}")
    claims = [claim_of(index, f"one-{index}") for index in range(25)]
    async with node.serving() as preparer, asyncio.TaskGroup() as group:
        for claim in claims:
            group.create_task(preparer.prepare(claim))
    assert len(node.state().records) == 25
    async with node.serving() as preparer, asyncio.TaskGroup() as group:
        for claim in claims:
            group.create_task(preparer.unprepare(ref_of(claim)))
    assert node.leaks() == {}


async def test_many_want_the_same(node: Node) -> None:
    async def attempt(number: int) -> bool:
        try:
            await preparer.prepare(claim_of(number, "gpu-0"))
        except ConflictError:
            return False
        return True

    async with node.serving() as preparer:
        outcomes = await asyncio.gather(*(attempt(number) for number in range(10)))
        assert sum(outcomes) == 1
        again = await asyncio.gather(
            *(preparer.prepare(claim_of(outcomes.index(True), "gpu-0")) for _ in range(5))
        )
        assert len(set(again)) == 1


async def test_a_lock_that_another_process_keeps(node: Node) -> None:
    node.lock_limit = 0.3
    async with node.serving() as preparer, node.serving() as other:
        await preparer.prepare(claim_of(2, "gpu-1"))
        async with other._books.locks.held(["test:gpu-0"], "x"):
            with pytest.raises(UnavailableError, match=r"waited 0\.3 s: another process prepares"):
                await preparer.prepare(claim_of(1, "gpu-0"))
            await preparer.prepare(claim_of(3, "gpu-2"))
        await preparer.prepare(claim_of(1, "gpu-0"))


async def test_the_metadata_of_an_earlier_claim_of_the_name(node: Node) -> None:
    """The old claim is given back late: what the new one's containers read stays."""
    old, new = claim_of(1, "gpu-0", name="web"), claim_of(2, "gpu-1", name="web")
    async with node.serving() as preparer:
        await preparer.prepare(old)
        await preparer.prepare(new)
        await preparer.unprepare(ref_of(old))
        assert node.metadata_files() == [f"{uid_of(2)}_r.json"]
        assert [name for name in node.cdi_files() if uid_of(1) in name] == []
        await preparer.unprepare(ref_of(new))
    assert node.leaks() == {}
