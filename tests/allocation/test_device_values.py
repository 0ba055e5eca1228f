"""What selectors see of a device, and that a selector's answer depends on nothing but its projection."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any

import pytest

from dray.allocation.device_values import Place, prepare
from dray.allocation.faults import SelectorError
from dray.allocation.selector import CompileError, Selector
from dray.api.codec.json_codec import view
from dray.api.resource.slice import Device
from dray.api.semver import SemVer
from dray.cel.library.quantity import QuantityValue
from tests.allocation.selecting import DRIVER, LISTS, A, C, device, prepared, selector
from tests.campaign import seeds
from tests.cel.generate import generate_selector_case


def test_names_without_a_domain_are_in_the_drivers() -> None:
    value = prepared(device(b=1, a="x", other__c=True)).value
    assert value["driver"] == DRIVER
    assert value["attributes"] == {DRIVER: {"a": "x", "b": 1}, "other": {"c": True}}
    assert list(value["attributes"][DRIVER]) == ["a", "b"]
    assert value["attributes"]["unknown"] == {}
    assert value["allowMultipleAllocations"] is False


def test_order_of_keys_is_not_that_of_the_object() -> None:
    texts = ("device.attributes.map(d, d)[0] == 'a'", f"{A}.map(n, n)[0] == 'x'")
    for one in (device(a__y=1, x=1, z=1), device(z=1, x=1, a__y=1)):
        assert all(selector(text).matches(DRIVER, one) for text in texts)


def test_amounts_are_quantities() -> None:
    value = prepared(device({"memory": "1Gi", "other/lanes": "16"})).value
    assert isinstance(value["capacity"][DRIVER]["memory"], QuantityValue)
    assert str(value["capacity"]["other"]["lanes"]) == "16"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("true", []),
        ("device.driver == ''", [Place("driver")]),
        (f"{A}.x == 1 || {A}.x == 2", [Place("attributes", DRIVER, "x")]),
        (f"has({A}.x)", [Place("attributes", DRIVER, "x", True)]),
        (f"has({A}.x) && {A}.x", [Place("attributes", DRIVER, "x")]),
        ("'d' in device.attributes", [Place("attributes", "d", "", True)]),
        (f"{C}.m.isInteger()", [Place("capacity", DRIVER, "m")]),
        (f"{A}.all(x, x != '')", [Place("attributes", DRIVER)]),
        ("device.attributes.all(d, d != '')", [Place("attributes")]),
        (f"{A}.list[0].size() > 1", [Place("attributes", DRIVER, "list")]),
        (f"has({A}.list.x)", [Place("attributes", DRIVER, "list")]),
        (f"cel.bind(a, {A}, a.x && a.?y.orValue(true))", [Place("attributes", DRIVER, n) for n in "xy"]),
        ("device == device", [Place("")]),
    ],
)
def test_what_is_read(text: str, places: list[Place]) -> None:
    assert list(selector(text).places) == places


def test_projections_keep_apart_what_an_expression_can() -> None:
    project = selector(f"{A}.x == 1").projection
    values = [1, True, "1", [1], ["1"], [True], SemVer.parse("1.0.0"), SemVer.parse("1.0.0+b")]
    keys = [project(prepared(device(x=value))) for value in values]
    keys += [project(prepared(device())), project(prepared(device(x=1, bad=None)))]
    assert len(set(keys)) == len(keys)
    assert project(prepared(device(x=1, y=2))) == keys[0]
    amounts = selector(f"{C}.m.isInteger()").projection
    same = [amounts(prepared(device({"m": text}))) for text in ("1Gi", "1024Mi", "1073741824", "1Gi")]
    assert same[0] == same[3] != same[2]


def _answer(found: Selector, one: Device, driver: str) -> Any:
    try:
        return found.matches(driver, one)
    except SelectorError as error:
        return str(error)


def _devices(dice: random.Random) -> list[tuple[str, Device]]:
    """Few values, so that projections meet."""
    found = []
    for _ in range(12):
        raw = generate_selector_case(dice.randrange(200))["device"]
        driver = raw.pop("driver")
        found.append((driver, view(raw, Device)))
    return found


def test_equal_projections_have_equal_answers() -> None:
    met = 0
    for seed in seeds(300, 20_000):
        dice = random.Random(f"projection {seed}")
        try:
            found = selector(generate_selector_case(seed)["expression"])
        except CompileError:
            continue
        answers: dict[Hashable, Any] = {}
        for driver, one in _devices(dice):
            key = found.projection(prepare(driver, one, lists=LISTS.list_type_attributes))
            answer = _answer(found, one, driver)
            met += key in answers
            assert answers.setdefault(key, answer) == answer, f"seed {seed}: {found.expression}"
    assert met > 100
