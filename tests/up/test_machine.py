"""The agent's configuration file of `dray up` while devices come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.agent.config import load_agent_config, served
from dray.api.quantity import Quantity
from dray.drivers.sim.config import SimConfig, SimDevices
from dray.drivers.sim.profile import SimProfile
from dray.errors import Error
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from dray.testing.host import Host
from dray.up.machine import LOOK_SECONDS, MachineConfig
from dray.up.place import UpPlace
from tests.drivers.machine import build
from tests.waiting import wait_until


def ports(path: Path) -> set[str]:
    return {rule.port for rule in served(load_agent_config(path.read_text(), str(path))).usb}


async def settled(clock: FakeClock) -> None:
    await wait_until(lambda: clock.sleepers)


async def test_a_device_that_is_plugged_in_later_is_offered(tmp_path: Path) -> None:
    host: Host = build(tmp_path / "host").host
    machine = MachineConfig(UpPlace(tmp_path / "data"), str(host.root), SimProfile())
    path, clock = machine.write(), FakeClock()
    before, first = ports(path), path.stat().st_ino
    async with running(machine.run(clock), name="new devices"):
        await settled(clock)
        await clock.advance(LOOK_SECONDS)
        await settled(clock)
        assert path.stat().st_ino == first, "nothing is new, so nothing is written"
        later = host.usb("7-1.4", vendor="0951", product="1666")
        await clock.advance(LOOK_SECONDS)
        await settled(clock)
        assert ports(path) == before | {"7-1.4"}
        later.unplug()
        await clock.advance(LOOK_SECONDS)
        await settled(clock)
        assert ports(path) == before | {"7-1.4"}, "the agent knows that it is gone"


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    host: Host = build(tmp_path / "host").host
    machine = MachineConfig(UpPlace(tmp_path / "data"), str(host.root), SimProfile())
    path = machine.write()
    before, directory = ports(path), path.parent
    host.usb("7-1.4", vendor="0951", product="1666")
    aside = directory.rename(tmp_path / "aside")
    directory.write_text("in the way")
    with pytest.raises(Error):
        machine.write()
    directory.unlink()
    aside.rename(directory)
    assert ports(machine.write()) == before | {"7-1.4"}


def test_simulated_devices_of_every_shape(tmp_path: Path) -> None:
    host = Host(tmp_path / "host")
    sim = SimDevices(name="gpu", count=2, capacity={"memory": Quantity("80Gi")})
    machine = MachineConfig(
        UpPlace(tmp_path / "data"), str(host.root), SimProfile(local=SimConfig(devices=(sim,)))
    )
    text = machine.write().read_text()
    now = served(load_agent_config(text, "config.yaml"))
    assert [one.name for one in now.sim.devices] == ["gpu"] and "80Gi" in text
