from __future__ import annotations

import pytest

from dray.drivers.contract import HasPreStart
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices, SimFault, SimPreStart, named
from dray.errors import InvalidError
from dray.runtime.clock import FakeClock

RESET = SimPreStart(action="reset")


def test_pre_start_is_asked_for_where_the_config_has_one() -> None:
    """A resource has one driver: an entry without preStart goes with the one that shares its resource."""
    config = SimConfig(
        devices=(
            SimDevices(name="a", resource_name="x.io/a"),
            SimDevices(name="b", resource_name="x.io/b", pre_start=RESET),
            SimDevices(name="c", resource_name="x.io/b"),
            SimDevices(name="d", resource_name="x.io/d"),
        ),
        faults=(SimFault(device="c-0"), SimFault(device="a-0"), SimFault(device="b-0")),
    )
    plain, acting = sim_drivers(config, FakeClock())
    assert not isinstance(plain, HasPreStart)
    assert isinstance(acting, HasPreStart)
    assert (plain.resources, acting.resources) == (("x.io/a", "x.io/d"), ("x.io/b",))
    assert [fault.device for fault in plain.config.faults] == ["a-0"]
    assert [fault.device for fault in acting.config.faults] == ["c-0", "b-0"]
    assert {plain.kind, acting.kind} == {"sim"}


def test_one_kind_of_resource_makes_one_driver_and_none_makes_none() -> None:
    assert sim_drivers(SimConfig(), FakeClock()) == ()
    (only,) = sim_drivers(
        SimConfig(devices=(SimDevices(name="a", resource_name="x.io/a", pre_start=RESET),)), FakeClock()
    )
    assert isinstance(only, HasPreStart)


def test_a_bad_config_is_refused_with_all_its_faults() -> None:
    with pytest.raises(InvalidError) as caught:
        sim_drivers(SimConfig(devices=(SimDevices(name="gpu", count=0),)), FakeClock())
    assert [cause.field for cause in caught.value.causes] == ["devices[0].resourceName", "devices[0].count"]
    assert str(caught.value).startswith("simulated devices: devices[0].resourceName: Required value; ")


@pytest.mark.parametrize(
    ("device_id", "has"),
    [
        ("gpu-0", True),
        ("gpu-11", True),
        ("gpu-12", False),
        ("gpu-03", False),
        ("gpu-", False),
        ("xgpu-1", False),
    ],
)
def test_which_ids_an_entry_has(device_id: str, has: bool) -> None:
    entry = SimDevices(name="gpu", count=12)
    assert entry.has(device_id) is has
    assert (device_id in entry.ids) is has


def test_names_by_domain() -> None:
    config = SimConfig(devices=(SimDevices(name="gpu"), SimDevices(name="nic", resource_name="x.io/nic")))
    assert [one.resource_name for one in named(config, "a.com").devices] == ["a.com/sim-gpu", "x.io/nic"]
