"""Groups share columns and layouts exactly where no selector can tell their devices apart."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.features import Features
from dray.allocation.index import columns as module
from dray.allocation.index.columns import Columns, Group
from dray.api.codec.json_codec import view
from dray.api.resource.slice import Device

DRIVER = "driver-a"


def group(columns: Columns, *given: dict[str, Any], driver: str = DRIVER) -> Group:
    return columns.group(driver, [view({"name": f"d{at}", **one}, Device) for at, one in enumerate(given)])


def test_equal_contents_are_one_column_and_a_serial_number_is_apart() -> None:
    columns = Columns(Features())
    one, two = (
        group(
            columns,
            {
                "attributes": {"uuid": {"string": f"u{node}"}, "numa": {"int": 0}},
                "capacity": {"m": {"value": "1Gi"}},
            },
            {
                "attributes": {"uuid": {"string": f"v{node}"}, "numa": {"int": 1}},
                "capacity": {"m": {"value": "2Gi"}},
            },
        )
        for node in range(2)
    )
    assert one.layout is two.layout
    same = [left is right for left, right in zip(one.columns, two.columns, strict=True)]
    assert same == [False, True, True]
    assert (one.layout.attributes, one.layout.capacity) == ({"uuid": 0, "numa": 1}, {"m": 2})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"capacity": {"m": {"value": "1Gi"}}}, {"capacity": {"m": {"value": "1073741824"}}}),
        ({"capacity": {"m": {"value": "1"}}}, {"capacity": {"m": {"value": "+1"}}}),
        (
            {"capacity": {"m": {"value": "1"}}},
            {"capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}},
        ),
        ({"attributes": {"a": {"int": 1}}}, {"attributes": {"a": {"bool": True}}}),
        ({"attributes": {"a": {"string": "1.0.0"}}}, {"attributes": {"a": {"version": "1.0.0"}}}),
        ({"attributes": {"a": {"int": 1}}}, {"attributes": {f"{DRIVER}/a": {"int": 1}}}),
        ({"attributes": {"a": {"int": 1}}}, {"capacity": {"a": {"value": "1"}}}),
        ({"allowMultipleAllocations": True}, {}),
    ],
)
def test_what_a_selector_may_tell_apart_is_apart(left: dict[str, Any], right: dict[str, Any]) -> None:
    columns = Columns(Features())
    one, two = group(columns, left), group(columns, right)
    assert (one.layout, one.columns) != (two.layout, two.columns)
    again = group(columns, left)
    assert (one.layout, one.columns) == (again.layout, again.columns)


def test_devices_with_other_names_have_nothing_there() -> None:
    columns = Columns(Features())
    got = group(columns, {"attributes": {"a": {"int": 1}}}, {"attributes": {"b": {"int": 1}}})
    assert got.layout.attributes == {"a": 0, "b": 1}
    assert got.columns[0] is not got.columns[1]


def test_what_is_odd() -> None:
    columns = Columns(Features(consumable_capacity=True))
    got = group(
        columns,
        {"attributes": {"a": {"version": "1.0.0"}}},
        {"attributes": {"a": {"version": "one"}}, "allowMultipleAllocations": True},
        {"attributes": {"a": {}}, "capacity": {"m": {"value": "-1"}}},
        {
            "capacity": {"m": {"value": "4", "requestPolicy": {"default": "1"}}},
            "bindingConditions": ["ready"],
        },
    )
    layout = got.layout
    assert (layout.unsound, layout.multiple, layout.asked, got.partial) == (0b0110, 0b0010, 0b0111, 0b1110)


def test_what_was_forgotten_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never the same identity for other contents, and never more kept than allowed."""
    monkeypatch.setattr(module, "KEPT_VALUES", 3)
    monkeypatch.setattr(module, "KEPT_NAMES", 2)
    monkeypatch.setattr(module, "KEPT_LAYOUTS", 2)
    columns = Columns(Features())
    made = [
        (number, group(columns, {"attributes": {f"a{number % 3}": {"int": number}}}))
        for number in [*range(5)] * 2
    ]
    for number, one in made:
        for other_number, other in made:
            if number != other_number:
                assert one.columns[0] is not other.columns[0]
    assert len(columns._attributes._known) <= 3
    assert len(columns._attributes._last) <= 2
    assert len(columns._layouts) <= 2
