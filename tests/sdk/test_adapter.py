from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Asked, Device, Discovery, HasPreStart, Health, TakesClaims
from dray.errors import Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.change.executor import Executor, log_changes
from dray.hardware.host_root import HostRoot
from dray.inventory.doors import Offered
from dray.inventory.inventory import InventoryFeed
from dray.inventory.looking import Lookout
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from dray.runtime.threads import Threads
from dray.sdk import Device as LampDevice
from dray.sdk import Driver, Host
from dray.sdk.adapter import Adapter, PreStartAdapter, adapt, own_kind
from tests.sdk.lamps import Lamps, PlainLamps, build_machine


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    return HostRoot(build_machine(tmp_path))


def look(driver: Driver, root: HostRoot) -> Discovery:
    return adapt(driver).discover(root)


def asked(root: HostRoot, *parameters: dict[str, Any], label: str = "c/r") -> Asked:
    return Asked("uid-1", label, look(PlainLamps(), root).devices[:1], parameters)


def work(root: HostRoot) -> HostWork:
    return HostWork(root, Executor(root.path, log_changes), Threads())


def test_the_devices(root: HostRoot) -> None:
    found = look(PlainLamps(), root)
    assert [(one.id, one.kind, one.resource, one.health) for one in found.devices] == [
        (f"lamp{number}", "lamp.example.com", "example.com/lamp", Health.HEALTHY) for number in (0, 1)
    ]
    assert found.watch == ("/dev",)
    assert found.again_in == 10.0
    assert found.devices[0].watch == ("/dev/lamp0",)


class Odd(PlainLamps):
    def __init__(self, *given: Any) -> None:
        self.given = given

    def discover(self, host: Host) -> Iterable[LampDevice]:
        return [*super().discover(host), *self.given]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (5, "5 is not a dray.sdk.Device"),
        (LampDevice("lamp0"), "lamp0 is left out: it is there twice"),
        (LampDevice("x", numa_node="a"), "numa_node"),  # type: ignore[arg-type]
        (LampDevice(["x"]), "id"),  # type: ignore[arg-type]
    ],
)
def test_one_bad_device_hides_no_other(root: HostRoot, given: Any, text: str) -> None:
    found = look(Odd(given), root)
    assert [one.id for one in found.devices] == ["lamp0", "lamp1"]
    assert [text in problem.message for problem in found.problems] == [True]


def test_health(root: HostRoot) -> None:
    (root.path / "dev/lamp1").write_text("flickers\n")
    found = look(Lamps(), root).devices
    assert [(one.health, one.reason) for one in found] == [
        (Health.HEALTHY, ""),
        (Health.UNHEALTHY, "flickers"),
    ]


def test_health_that_fails_is_ill_health(root: HostRoot) -> None:
    found = look(Lamps("health"), root).devices
    assert {one.health for one in found} == {Health.UNHEALTHY}
    assert found[0].reason == "lamp.example.com: health of lamp0 failed: ValueError: the bulb is loose"


def test_a_device_whose_node_is_gone_is_not_well(root: HostRoot) -> None:
    found = look(Odd(LampDevice("away", nodes=["/dev/away"])), root).devices
    assert {one.id: one.reason for one in found}["away"] == "/dev/away does not exist"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), OSError(5, "no")])
def test_discover_that_fails_is_an_error_of_ours(root: HostRoot, error: BaseException) -> None:
    with pytest.raises(HardwareError, match="discover failed"):
        look(Lamps("discover", error), root)


async def test_the_usual_edits_need_no_thread(root: HostRoot) -> None:
    prepared = adapt(PlainLamps()).prepare("example.com/lamp", look(PlainLamps(), root).devices)
    assert prepared.finish is None
    assert prepared.required == ("/dev/lamp0", "/dev/lamp1")
    edits = await work(root)(prepared)
    assert dict(edits.env) == {"DEVICES_EXAMPLE_COM_LAMP": "lamp0,lamp1"}
    assert [node.host_path for node in edits.device_nodes] == ["/dev/lamp0", "/dev/lamp1"]


async def test_a_claim_with_parameters(root: HostRoot) -> None:
    driver = Lamps()
    adapted = adapt(driver)
    assert isinstance(adapted, TakesClaims)
    adapted.discover(root)
    given = asked(root, {"brightness": 10, "maxWatts": 5}, {"brightness": 20})
    edits = await work(root)(adapted.prepare_claim(given))
    assert dict(edits.env) == {"DEVICES_C_R": "lamp0", "LEVEL": "20"}
    what, request = driver.calls[-1]
    assert what == "prepare" and request is not None
    assert (request.config.max_watts, request.claim_uid, request.label) == (5, "uid-1", "c/r")
    assert request.host.path("/dev") == root.path / "dev"


async def test_a_container_of_a_plugin_gets_the_defaults(root: HostRoot) -> None:
    adapted = adapt(Lamps())
    edits = await work(root)(adapted.prepare("example.com/lamp", look(PlainLamps(), root).devices))
    assert dict(edits.env)["LEVEL"] == "50"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("no"), HardwareError), (InvalidError("no"), InvalidError), (TypeError(), HardwareError)],
)
async def test_prepare_that_fails(root: HostRoot, error: BaseException, kind: type[Error]) -> None:
    with pytest.raises(kind):
        await work(root)(adapt(Lamps("prepare", error)).prepare("r", look(PlainLamps(), root).devices))


async def test_what_is_gone_meanwhile_is_not_handed_out(root: HostRoot) -> None:
    driver = Lamps()
    prepared = adapt(driver).prepare("r", look(PlainLamps(), root).devices)
    (root.path / "dev/lamp0").unlink()
    with pytest.raises(HardwareError, match="/dev/lamp0"):
        await work(root)(prepared)
    assert driver.calls == []
    with pytest.raises(NotFoundError):
        adapt(driver).prepare("r", ())


def test_parameters_are_checked(root: HostRoot) -> None:
    adapted = Adapter(Lamps())
    adapted.check_parameters({"apiVersion": "lamp.example.com/v1", "kind": "LampConfig", "brightness": 5})
    with pytest.raises(InvalidError, match="brightness"):
        adapted.check_parameters({"brightness": "5"})
    with pytest.raises(InvalidError, match=r"lamp\.example\.com take no parameters"):
        Adapter(PlainLamps()).check_parameters({})
    with pytest.raises(InvalidError, match="brightness"):
        adapted.prepare_claim(asked(root, {"brightness": "5"})).finish(root)  # type: ignore[misc]


def test_release(root: HostRoot) -> None:
    driver = Lamps()
    Adapter(driver).release(asked(root, {"brightness": 7}))
    what, request = driver.calls[-1]
    assert what == "release" and request is not None and request.config.brightness == 7
    assert [one.id for one in request.devices] == ["lamp0"]
    Adapter(PlainLamps()).release(asked(root))
    assert Adapter(driver).release_claim(asked(root)) == ()


def test_release_of_what_an_older_version_took(root: HostRoot) -> None:
    driver = Lamps()
    Adapter(driver).release(asked(root, {"wattage": 7}))
    assert driver.calls[-1][1] is not None and driver.calls[-1][1].config.brightness == 50
    with pytest.raises(HardwareError):
        Adapter(Lamps("release")).release(asked(root))


async def test_pre_start(root: HostRoot) -> None:
    assert not isinstance(adapt(PlainLamps()), HasPreStart)
    driver = Lamps()
    adapted = adapt(driver)
    assert isinstance(adapted, HasPreStart) and isinstance(adapted, PreStartAdapter)
    await adapted.pre_start("example.com/lamp", look(PlainLamps(), root).devices)
    assert driver.calls[-1][0] == "pre_start"
    with pytest.raises(HardwareError, match="pre_start failed"):
        await PreStartAdapter(Lamps("pre_start")).pre_start("r", ())


def test_doors() -> None:
    class OnlyClaims(PlainLamps):
        resource = ""

    kind = own_kind(PlainLamps())
    assert (kind.name, kind.resources, kind.doors) == (
        "lamp.example.com",
        ("example.com/lamp",),
        Offered.BOTH,
    )
    assert own_kind(PlainLamps(), Offered.DRA).doors is Offered.DRA
    assert (own_kind(OnlyClaims()).resources, own_kind(OnlyClaims()).doors) == ((), Offered.DRA)
    with pytest.raises(InvalidError, match="no resource"):
        own_kind(OnlyClaims(), Offered.PLUGIN)


async def test_files_that_come_and_go_and_a_driver_that_fails_for_a_while(root: HostRoot) -> None:
    """With the machinery that the agent looks with."""
    driver, feed = Lamps(), InventoryFeed()
    lookout = Lookout(root, feed, SystemClock())
    lookout.set_drivers([adapt(driver)])

    async def until(ids: list[str], healthy: bool = True) -> None:
        def fits(devices: Iterable[Device]) -> bool:
            found = sorted(one.id for one in devices if (one.health is Health.HEALTHY) == healthy)
            return found == ids

        async with asyncio.timeout(60):
            while not fits(feed.current.devices):
                await feed.wait_newer(feed.current.generation)

    async with running(lookout.run(), name="looking"):
        await until(["lamp0", "lamp1"])
        (root.path / "dev/lamp2").touch()
        await until(["lamp0", "lamp1", "lamp2"])
        driver.fail = "discover"
        os.unlink(root.path / "dev/lamp2")
        await until(["lamp2"], healthy=False)
        driver.fail = ""
        await until(["lamp0", "lamp1"])
        (root.path / "dev/lamp0").write_text("flickers")
        await until(["lamp0"], healthy=False)
