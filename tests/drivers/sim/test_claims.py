from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode
from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Asked, Device, Health, Prepared, TakesClaims
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices, SimPreStart
from dray.errors import HardwareError, InvalidError, NotFoundError
from dray.hardware.change.executor import Executor
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from dray.runtime.threads import Threads

HEAD = {"apiVersion": "sim.dray.internal/v1", "kind": "SimConfig"}
CONFIG = SimConfig(
    devices=(
        SimDevices(name="gpu", count=2, resource_name="x.io/gpu"),
        SimDevices(name="key", resource_name="x.io/key", pre_start=SimPreStart(action="reset")),
    )
)
PLAIN, ACTING = sim_drivers(CONFIG, FakeClock())


def device(name: str) -> Device:
    return Device(
        name, "sim", "x.io/gpu", Health.HEALTHY, paths=("/dev/null",), addresses=(name,), permissions="rw"
    )


def asked(*devices: str, parameters: tuple[dict[str, Any], ...] = (), **fields: Any) -> Asked:
    return Asked("uid-1", "mine/gpu", tuple(map(device, devices)), parameters, **fields)


async def carry_out(prepared: Prepared) -> ContainerEdits:
    executor = Executor(Path("/"), audit=lambda entry: None)
    return await HostWork(HostRoot(Path("/")), executor, Threads())(prepared)


def test_both_drivers_take_claims_for_any_device_of_the_kind() -> None:
    request = asked("gpu-0", "key-0")
    assert isinstance(PLAIN, TakesClaims)
    assert isinstance(ACTING, TakesClaims)
    assert PLAIN.prepare_claim(request) == ACTING.prepare_claim(request)


def test_without_parameters_it_is_what_a_plugin_gives() -> None:
    prepared = PLAIN.prepare_claim(asked("gpu-1", "gpu-0"))
    assert prepared == PLAIN.prepare("mine/gpu", [device("gpu-1"), device("gpu-0")])
    assert prepared.edits == ContainerEdits(
        env=(("SIM_RESOURCE_MINE_GPU", "gpu-1,gpu-0"),),
        device_nodes=(
            DeviceNode("/dev/null", "/dev/dray-sim/gpu-1", "rw"),
            DeviceNode("/dev/null", "/dev/dray-sim/gpu-0", "rw"),
        ),
    )


def test_what_a_container_is_told() -> None:
    config = {**HEAD, "env": {"B": "2", "A": "1"}, "mode": "TimeSlicing", "interval": "Short"}
    request = asked(
        "gpu-0",
        "gpu-1",
        parameters=(config, {**HEAD, "env": {"A": "3"}}),
        admin_access=True,
        consumed=({"memory": "10Gi", "cores": "2"}, {"memory": "20Gi"}),
    )
    assert dict(PLAIN.prepare_claim(request).edits.env) == {
        "SIM_RESOURCE_MINE_GPU": "gpu-0,gpu-1",
        "A": "3",
        "B": "2",
        "SIM_MODE_MINE_GPU": "TimeSlicing",
        "SIM_INTERVAL_MINE_GPU": "Short",
        "SIM_CONSUMED_MINE_GPU": "gpu-0/cores=2,gpu-0/memory=10Gi,gpu-1/memory=20Gi",
        "DRA_ADMIN_ACCESS": "true",
    }
    assert PLAIN.prepare_claim(request) == PLAIN.prepare_claim(request), "after a restart too"


def test_bad_parameters_and_devices_that_are_gone() -> None:
    bad = {**HEAD, "mod": "Exclusive"}
    with pytest.raises(InvalidError, match=r"^mod: unknown field"):
        PLAIN.check_parameters(bad)
    with pytest.raises(InvalidError, match=r"^mod: unknown field"):
        PLAIN.prepare_claim(asked("gpu-0", parameters=(bad,)))
    with pytest.raises(NotFoundError, match="mine/gpu"):
        PLAIN.prepare_claim(asked())


async def test_a_prepare_that_is_slow_and_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = PLAIN.prepare_claim(asked("gpu-0", parameters=({**HEAD, "prepareSeconds": 0.05},)))
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert await carry_out(slow) == slow.edits
    assert slept == [0.05]
    failing = PLAIN.prepare_claim(asked("gpu-0", parameters=({**HEAD, "failPrepare": "out of luck"},)))
    with pytest.raises(HardwareError, match=r"^out of luck \(the claim's failPrepare says so\)$"):
        await carry_out(failing)


def test_a_release_changes_nothing_however_often() -> None:
    request = asked("gpu-0")
    assert PLAIN.release_claim(request) == ACTING.release_claim(request) == ()
