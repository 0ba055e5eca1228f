"""A matcher says to a group what its selectors say to the devices one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dray.allocation.faults import SelectorError
from dray.allocation.features import Features
from dray.allocation.index import matches as module
from dray.allocation.index.columns import Columns, Group
from dray.allocation.index.matches import Answers, Kept, Matcher, Matchers
from dray.allocation.requests import Request
from dray.allocation.selector import CompiledSelectors
from dray.api.codec.json_codec import view
from dray.api.resource.claim import ExactDeviceRequest
from dray.api.resource.device_class import DeviceClass
from dray.api.resource.slice import Device
from tests.campaign import campaign

FEATURES = Features(consumable_capacity=True)
GROUPS = campaign(300, 10_000)
EXPRESSIONS = (
    "true",
    'device.driver == "driver-a"',
    'device.attributes["driver-a"].type == "X"',
    '"type" in device.attributes["driver-a"] && device.attributes["driver-a"].type != "Y"',
    'device.attributes["driver-b"].type == "X" || device.allowMultipleAllocations',
    'device.capacity["driver-a"].memory.compareTo(quantity("2Gi")) >= 0',
    'device.capacity["driver-a"].memory == quantity("1Gi") && device.attributes["driver-a"].numa < 2',
    'device.attributes["driver-a"].exists(name, name == "numa")',
    "device.allowMultipleAllocations",
    'device.attributes["driver-a"].type.',
)


def request(expression: str) -> Request:
    wish = view(
        {"name": "r", "deviceClassName": "c", "selectors": [{"cel": {"expression": expression}}]},
        ExactDeviceRequest,
    )
    return Request(0, 0, 0, "c", "r", "", wish, DeviceClass())


def random_device(random: Random, number: int) -> Device:
    """Names with and without their domain, now and then both; a few attributes without a value."""
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    for name in ("type", "driver-a/type", "driver-b/type"):
        if random.random() < 0.5:
            attributes[name] = {"string": random.choice("XY")}
    if random.random() < 0.7:
        attributes["numa"] = {"int": random.randrange(3)}
    if random.random() < 0.05:
        attributes["odd"] = {}
    for name in ("memory", "driver-a/memory"):
        if random.random() < 0.6:
            capacity[name] = {"value": random.choice(("1Gi", "1073741824", "4Gi"))}
    fields = {"name": f"d{number}", "attributes": attributes, "capacity": capacity}
    return view(fields | {"allowMultipleAllocations": random.random() < 0.3}, Device)


def one_by_one(selectors: CompiledSelectors, expressions: list[str | None], group: Group) -> tuple[int, int]:
    accepted = failed = 0
    for at, device in enumerate(group.devices):
        if not group.layout.asked >> at & 1:
            continue
        try:
            if all(one is not None and _matches(selectors, one, group, device) for one in expressions):
                accepted |= 1 << at
            elif None in expressions and _reaches_none(selectors, expressions, group, device):
                failed |= 1 << at
        except SelectorError:
            failed |= 1 << at
    return accepted, failed


def _matches(selectors: CompiledSelectors, expression: str, group: Group, device: Device) -> bool:
    return selectors.matches(expression, group.layout.driver, device)


def _reaches_none(
    selectors: CompiledSelectors, expressions: list[str | None], group: Group, device: Device
) -> bool:
    before = expressions[: expressions.index(None)]
    return all(one is not None and _matches(selectors, one, group, device) for one in before)


@pytest.mark.parametrize("kept", [1, 1000, 1 << 30])
def test_a_group_at_once_is_its_devices_one_by_one(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything kept, and with next to nothing."""
    monkeypatch.setattr(module, "KEPT_GROUPS", kept)
    monkeypatch.setattr(module, "KEPT_PROJECTIONS", kept)
    monkeypatch.setattr(module, "KEPT_BYTES", kept)
    random = Random(kept)
    selectors, columns = CompiledSelectors(FEATURES), Columns(FEATURES)
    room = Kept()
    answers: dict[str | None, Answers | None] = {one: Answers(selectors, one, room) for one in EXPRESSIONS}
    answers[None] = None
    asked: list[list[str | None]] = [
        random.choices([*EXPRESSIONS, None], weights=[*[3] * len(EXPRESSIONS), 1], k=random.randrange(4))
        for _ in range(20)
    ]
    matchers = [(one, Matcher([answers[text] for text in one], (), room)) for one in asked]
    kinds = set()
    for _ in range(GROUPS):
        devices = [random_device(random, number) for number in range(random.randrange(1, 4))]
        group = columns.group(random.choice(("driver-a", "driver-b")), devices)
        expressions, matcher = random.choice(matchers)
        expected = one_by_one(selectors, expressions, group)
        assert matcher.of(group) == expected, expressions
        assert matcher.of(group) == expected, expressions
        kinds.add((bool(expected[0]), bool(expected[1])))
    assert len(kinds) == 4


def test_an_unsound_device_says_nothing_about_its_driver() -> None:
    """It comes first, and every selector fails on it; the next one of the same driver is another matter."""
    selectors, columns = CompiledSelectors(FEATURES), Columns(FEATURES)
    matcher = Matcher([Answers(selectors, 'device.driver == "driver-a"')], ())
    odd = view({"name": "odd", "attributes": {"a": {}}}, Device)
    assert matcher.of(columns.group("driver-a", [odd])) == (0, 1)
    assert matcher.of(columns.group("driver-a", [odd, Device(name="good")])) == (0b10, 0b01)
    assert matcher.of(columns.group("driver-b", [odd, Device(name="good")])) == (0, 0b01)


def test_a_selector_does_not_see_devices_that_the_one_before_refused() -> None:
    selectors, columns = CompiledSelectors(FEATURES), Columns(FEATURES)
    first, second = (
        Answers(selectors, one)
        for one in ('device.attributes["driver-a"].numa == 0', 'device.attributes["driver-a"].missing == 1')
    )
    devices = [view({"name": f"d{n}", "attributes": {"numa": {"int": n}}}, Device) for n in range(3)]
    assert Matcher([first, second], ()).of(columns.group("driver-a", devices)) == (0, 0b001)
    assert (first.evaluations, second.evaluations) == (3, 1)


def test_answers_of_all_matchers_together_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of forty selectors reads what is different on every device; beyond the limit they are learned again."""
    monkeypatch.setattr(module, "KEPT_BYTES", 100_000)
    selectors, columns = CompiledSelectors(FEATURES), Columns(FEATURES)
    matchers = Matchers(selectors)
    devices = [view({"name": f"d{n}", "attributes": {"n": {"int": n}}}, Device) for n in range(50)]
    group = columns.group("driver-a", devices)
    known: list[int] = []
    for number in range(40):
        text = f'device.attributes["driver-a"].n == {number}'
        assert matchers.of(request(text)).of(group) == (1 << number, 0)
        known.append(sum(len(one._known) for one in matchers._answers.values()))
    assert matchers.kept.size <= 100_000
    assert max(known) <= 100_000 // 350
    assert known != sorted(known)
    assert matchers.of(request('device.attributes["driver-a"].n == 0')).of(group) == (1, 0)
