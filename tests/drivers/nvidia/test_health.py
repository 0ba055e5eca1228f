from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.taints import Effect
from dray.drivers.contract import Device, Health
from dray.drivers.nvidia.config import NvidiaHealth
from dray.drivers.nvidia.health import APPLICATION_XIDS, LOST, RECOVERY, UNMONITORED, XID
from dray.hardware.nvml.facts import WHOLE, XidEvent
from tests.drivers.nvidia.cards import Watched, watched


def taints(device: Device) -> list[tuple[str, str, str]]:
    return [(taint.key, taint.value, taint.effect) for taint in device.taints]


def report(host: Watched, xid: int, gpu_instance: int = WHOLE, compute_instance: int = WHOLE) -> None:
    uuid = host.machine.cards.cards[0].uuid
    host.machine.cards.report(XidEvent(uuid, xid, gpu_instance, compute_instance))
    host.look()


def test_a_serious_error_makes_a_card_unhealthy(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100")
    report(host, 79)
    ill = [device for device in host.devices if device.health is Health.UNHEALTHY]
    assert [device.name for device in ill] == ["gpu-2"]
    assert taints(ill[0]) == [(XID, "79", Effect.NO_SCHEDULE)]
    assert "XID 79" in ill[0].reason


@pytest.mark.parametrize("xid", sorted({*APPLICATION_XIDS, 154}))
def test_what_a_program_caused_is_told_and_does_no_harm(tmp_path: Path, xid: int) -> None:
    host = watched(tmp_path, "h200", health=NvidiaHealth(ignored_xids=(154,)))
    report(host, xid)
    assert host.devices[0].health is Health.HEALTHY
    assert taints(host.devices[0]) == [(XID, str(xid), Effect.NONE)]


def test_a_harmless_error_does_not_hide_a_serious_one(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    report(host, 48)
    report(host, 13)
    assert taints(host.devices[0]) == [(XID, "48", Effect.NO_SCHEDULE)]
    report(host, 62)
    assert taints(host.devices[0]) == [(XID, "62", Effect.NO_SCHEDULE)]


async def test_a_card_is_well_again_when_the_driver_says_so_for_a_while(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    report(host, 94)
    await host.clock.advance(59)
    host.look()
    assert host.devices[0].health is Health.UNHEALTHY
    await host.clock.advance(1)
    host.look()
    assert (host.devices[0].health, host.devices[0].taints) == (Health.HEALTHY, ())


async def test_a_card_that_needs_a_reset_waits_for_it(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    uuid = host.devices[0].id
    host.machine.cards.ask_recovery(uuid, 1)
    report(host, 95)
    assert taints(host.devices[0]) == [
        (XID, "95", Effect.NO_SCHEDULE),
        (RECOVERY, "reset", Effect.NO_SCHEDULE),
    ]
    assert "nvidia-smi --gpu-reset" in host.devices[0].reason
    await host.clock.advance(3600)
    host.look()
    assert host.devices[0].health is Health.UNHEALTHY
    host.machine.cards.reset(uuid)
    host.look()
    assert (host.devices[0].health, host.devices[0].taints) == (Health.HEALTHY, ())


@pytest.mark.parametrize(("action", "value"), [(2, "reboot"), (4, "drain-and-reset"), (99, "99")])
def test_what_the_driver_wants_counts_without_an_error(tmp_path: Path, action: int, value: str) -> None:
    """Nobody heard the error: it came before we were started."""
    host = watched(tmp_path, "h200")
    host.machine.cards.ask_recovery(host.devices[0].id, action)
    host.look()
    assert host.devices[0].health is Health.UNHEALTHY
    assert taints(host.devices[0]) == [(RECOVERY, value, Effect.NO_SCHEDULE)]


async def test_an_old_driver_leaves_only_a_reset_to_go_by(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    card = host.machine.cards.cards[1]
    host.machine.cards.report(XidEvent(card.uuid, 79))
    host.look()
    await host.clock.advance(1e6)
    host.look()
    assert host.named("gpu-1").health is Health.UNHEALTHY
    host.machine.cards.lose(card.uuid)
    host.look()
    assert taints(host.named("gpu-1")) == [(LOST, "", Effect.NO_SCHEDULE)]
    host.machine.cards.reset(card.uuid)
    host.look()
    assert (host.named("gpu-1").health, host.named("gpu-1").taints) == (Health.HEALTHY, ())


async def test_an_old_driver_forgets_what_programs_caused(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    host.machine.cards.report(XidEvent(host.machine.cards.cards[1].uuid, 31))
    host.look()
    assert taints(host.named("gpu-1")) == [(XID, "31", Effect.NONE)]
    await host.clock.advance(60)
    host.look()
    assert host.named("gpu-1").taints == ()


@pytest.mark.parametrize(
    ("place", "ill"),
    [
        ((WHOLE, WHOLE), ["gpu-0-mig-1g5gb-19-0", "gpu-0-mig-2g10gb-14-2", "gpu-0-mig-3g20gb-9-4"]),
        ((3, WHOLE), ["gpu-0-mig-2g10gb-14-2"]),
        ((2, 0), ["gpu-0-mig-3g20gb-9-4"]),
        ((2, 1), []),
        ((14, 0), []),
    ],
)
def test_an_error_of_a_part_is_that_parts_alone(
    tmp_path: Path, place: tuple[int, int], ill: list[str]
) -> None:
    host = watched(tmp_path, "a100-mig")
    report(host, 48, *place)
    assert [device.name for device in host.devices if device.taints] == ill


def test_an_error_goes_with_the_part_it_was_about(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    report(host, 48, 7, 0)
    assert host.named("gpu-0-mig-1g5gb-19-0").taints
    instance = host.machine.cards.cards[0].instances.pop(0)
    host.look()
    host.machine.cards.cards[0].instances.insert(0, instance)
    host.look()
    assert host.named("gpu-0-mig-1g5gb-19-0").taints == ()


def test_a_lost_card_stays_unhealthy_until_it_is_back(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100")
    uuid = host.named("gpu-3").id
    host.machine.cards.lose(uuid)
    found = host.look()
    assert sorted(host.names) == [f"gpu-{minor}" for minor in range(8)]
    device = host.named("gpu-3")
    assert (device.id, device.health) == (uuid, Health.UNHEALTHY)
    assert taints(device) == [(LOST, "", Effect.NO_SCHEDULE)]
    assert "does not answer" in device.reason
    assert found.problems
    host.look()
    assert host.named("gpu-3").health is Health.UNHEALTHY
    host.machine.cards.reset(uuid)
    assert host.look().problems == ()
    assert (host.named("gpu-3").health, host.named("gpu-3").taints) == (Health.HEALTHY, ())


def test_a_lost_card_takes_its_mig_devices_along(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    host.machine.cards.lose(host.machine.cards.cards[0].uuid)
    host.look()
    assert {device.name: device.health is Health.HEALTHY for device in host.devices} == {
        "gpu-1": True,
        "gpu-0-mig-1g5gb-19-0": False,
        "gpu-0-mig-2g10gb-14-2": False,
        "gpu-0-mig-3g20gb-9-4": False,
    }


def test_a_card_that_was_pulled_out_is_gone(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100")
    uuid = host.named("gpu-3").id
    host.machine.cards.take_away(uuid)
    host.look()
    assert "gpu-3" not in host.names


def test_a_card_that_cannot_be_listened_to_says_so(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    host.machine.cards.cards[0].answers["supportedEvents"] = 0
    host.driver.monitor.close()
    found = host.look()
    assert taints(host.devices[0]) == [(UNMONITORED, "", Effect.NONE)]
    assert host.devices[0].health is Health.HEALTHY
    assert found.problems == ()


def test_nobody_listens_where_cards_must_be_let_go(tmp_path: Path) -> None:
    """An open event queue keeps a card from being divided or bound to another driver."""
    for index, config in enumerate(({"dynamic_mig": True}, {"pass_through": True})):
        host = watched(tmp_path / str(index), "h200", **config)
        assert host.machine.cards.queues == []
        assert host.devices[0].taints == ()
    host = watched(tmp_path / "silent", "h200", health=NvidiaHealth(xids=False))
    assert host.machine.cards.queues == []
    assert host.devices[0].taints == ()


@pytest.mark.parametrize("name", ["h200", "a100-mig"])
def test_the_counters_of_a_lost_card_stay(tmp_path: Path, name: str) -> None:
    """Its devices draw on them: without, no server would take any of the slices."""
    host = watched(tmp_path, name, dynamic_mig=True)
    before = host.look()
    assert before.counters
    host.machine.cards.lose(host.machine.cards.cards[0].uuid)
    after = host.look()
    assert sorted(host.names) == sorted(device.name for device in before.devices)
    assert after.counters == before.counters
    assert host.look().counters == before.counters
