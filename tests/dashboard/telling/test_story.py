"""A device's story: what the cluster recorded, in order, with words for what it did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dray.api.codec import view
from dray.api.core import Event
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.dashboard.fleet.devices import Place, pool_devices
from dray.dashboard.fleet.happenings import Events, Past
from dray.dashboard.fleet.model import DeviceId, Moment
from dray.dashboard.telling.story import Sources, story
from dray.semantics.devices import Holder
from tests.dashboard import small_fleet as objects

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = DeviceId(objects.DRIVER, "n", "gpu-1")


def _at(seconds: int) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _offered(**more: Any) -> ResourceSlice:
    made = objects.slice_of("n", [objects.gpu(0), objects.gpu(1) | more, objects.gpu(10)])
    made["metadata"]["creationTimestamp"] = _at(0)
    return view(made, ResourceSlice)


def _claim(name: str = "c", **status: Any) -> ResourceClaim:
    result = {"request": "gpu", "driver": KEY.driver, "pool": KEY.pool, "device": KEY.name}
    made = objects.claim(name, objects.request())
    made["metadata"]["uid"] = f"uid-{name}"
    reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": _at(10)}
    return view(made | {"status": {"allocation": allocation, "reservedFor": reserved, **status}}, ResourceClaim)  # fmt: skip


def _event(reason: str, message: str, seconds: int, claim: str = "c", kind: str = "ResourceClaim") -> Event:
    return view(
        {
            "metadata": {"name": f"{reason}-{seconds}", "namespace": objects.NS},
            "involvedObject": {"kind": kind, "namespace": objects.NS, "name": claim, "uid": f"uid-{claim}"},
            "reason": reason,
            "message": message,
            "source": {"component": "dray-agent", "host": "n"},
            "lastTimestamp": _at(seconds),
        },
        Event,
    )


def _told(
    *events: Event, claims: tuple[ResourceClaim, ...] = (), offered: ResourceSlice | None = None, past: Past | None = None
) -> tuple[list[Moment], list[str]]:  # fmt: skip
    offered = offered or _offered()
    holds = {KEY: [Holder(f"{objects.NS}/{one.metadata.name}", (f"{objects.NS}/p",)) for one in claims]}
    device = next(one for one in pool_devices([offered], Place("n"), holds, []) if one.name == KEY.name)
    return story(Sources(device, offered, claims, events, (past or Past()).of(KEY)))


def _stages(moments: list[Moment]) -> list[str]:
    return [one.stage for one in moments]


def test_from_the_beginning_to_the_container() -> None:
    prepared = _event("DevicePrepared", "prepared gpu-0, gpu-1", 12)
    moments, notes = _told(prepared, claims=(_claim(),))
    assert _stages(moments) == ["discovered", "published", "allocated", "prepared"]
    assert moments[0].time is None
    assert moments[1].time == START
    assert [one.claim for one in moments[2:]] == ["team-a/c"] * 2
    assert [one.pod for one in moments[2:]] == ["team-a/p"] * 2
    assert moments[3].by == "dray-agent"
    assert len(notes) == 1


def test_a_condition_stands_in_for_an_event_that_is_forgotten() -> None:
    ready = {"type": "Ready", "status": "True", "message": "is ready", "lastTransitionTime": _at(12)}
    status = {"driver": KEY.driver, "pool": KEY.pool, "device": KEY.name, "conditions": [ready]}
    moments, _ = _told(claims=(_claim(devices=[status]),))
    assert _stages(moments)[-1] == "prepared"
    assert moments[-1].text == "is ready"


def test_devices_with_names_that_begin_alike_are_not_mixed_up() -> None:
    moments, notes = _told(
        _event("DevicePrepared", "prepared gpu-10, gpu-11", 12, claim="other"),
        _event("DevicePrepared", "prepared vgpu-1, mig-gpu-1, gpu-1-3g-0", 12, claim="another"),
        _event("DeviceUnhealthy", "sim gpu-10 does not work", 13, claim="n", kind="Node"),
    )
    assert _stages(moments) == ["discovered", "published"]
    assert len(notes) == 1


def test_a_claim_that_is_gone_is_told_by_its_events() -> None:
    moments, _ = _told(
        _event("DevicePrepared", "prepared gpu-1", 12, claim="gone"),
        _event("DeviceReleased", "given back", 60, claim="gone"),
        _event("DeviceReleased", "given back", 61, claim="unknown"),
    )
    assert _stages(moments) == ["discovered", "published", "prepared", "released"]
    assert moments[-1].claim == "team-a/gone"


def test_what_ended_while_somebody_looked_is_remembered() -> None:
    past = Past()
    past.take((objects.NS, "c"), _claim(), None, START + timedelta(seconds=99))
    past.take((objects.NS, "c"), None, _claim(), START + timedelta(seconds=100))
    moments, _ = _told(past=past)
    assert _stages(moments) == ["discovered", "published", "allocated", "released"]
    assert moments[-1].time == START + timedelta(seconds=99)
    assert "noticed here" in moments[-1].text
    both, _ = _told(
        _event("DevicePrepared", "prepared gpu-1", 12), _event("DeviceReleased", "given back", 98), past=past
    )
    assert _stages(both) == ["discovered", "published", "allocated", "prepared", "released"]


def test_health_is_told_under_any_of_its_names() -> None:
    uuid = "GPU-h200-0001"
    moments, _ = _told(
        _event("DeviceUnhealthy", f"nvidia {uuid} does not work: XID 79", 20, claim="n", kind="Node"),
        _event("DeviceRecovered", f"nvidia {uuid} works again", 30, claim="n", kind="Node"),
        _event("DeviceUnhealthy", f"nvidia {uuid}", 20, claim="p", kind="Pod"),
    )
    assert _stages(moments)[2:] == ["unhealthy", "healthy"]
    assert [one.claim for one in moments[2:]] == ["", ""]


def test_taints_and_a_later_generation() -> None:
    taint = {"key": "example.com/fan", "value": "loud", "effect": "NoSchedule", "timeAdded": _at(5)}
    offered = _offered(taints=[taint])
    moments, _ = _told(offered=offered)
    assert (moments[-1].stage, moments[-1].text) == ("tainted", "taint example.com/fan=loud:NoSchedule")
    ill = taint | {"key": "gpu.nvidia.com/xid", "value": "79"}
    moments, _ = _told(offered=_offered(taints=[ill, ill | {"effect": "None"}]))
    assert [one.stage for one in moments[-2:]] == ["unhealthy", "tainted"], "the effect None only informs"
    made = objects.slice_of("n", [objects.gpu(1)])
    made["spec"]["pool"]["generation"] = 3
    moments, _ = _told(offered=view(made, ResourceSlice))
    assert "may have joined later" in moments[1].text


def test_a_failed_preparation_is_no_preparation() -> None:
    moments, notes = _told(_event("DevicePrepareFailed", "cannot prepare: no node", 12), claims=(_claim(),))
    assert _stages(moments)[-1] == "failed"
    assert any("may not be yet" in one for one in notes)


def test_the_past_is_bounded() -> None:
    past = Past(most_each=2)
    for number in range(5):
        past.take((objects.NS, f"c{number}"), _claim(f"c{number}"), None, START)
    assert [one.claim for one in past.of(KEY)] == ["team-a/c3", "team-a/c4"]


def test_events_by_host_and_by_time() -> None:
    events = Events()
    for number in (3, 1, 2):
        events.take((objects.NS, str(number)), _event("DevicePrepared", "prepared x", number))
    assert [one.last_timestamp for one in events.told_on("n")] == [START + timedelta(seconds=one) for one in (1, 2, 3)]  # fmt: skip
    assert len(events.newest(2)) == 2
    for number in (1, 2, 3):
        events.take((objects.NS, str(number)), None)
    assert (events.told_on("n"), events.newest(9)) == ([], [])
