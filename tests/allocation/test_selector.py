"""Selectors on devices: Kubernetes' values, error texts and costs, and nothing that runs away."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dray.allocation.faults import SelectorError
from dray.allocation.features import Features
from dray.allocation.selector import (
    ADMITTED,
    COST_LIMIT,
    CompiledSelectors,
    CompileError,
    check_selector,
    compile_selector,
)
from dray.api.field_errors import Path, Reason
from dray.api.kinds import DEVICE_CLASSES
from dray.api.meta import ObjectMeta
from dray.api.resource.device_class import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from dray.api.resource.slice import Device, DeviceAttribute
from dray.api.semver import SemVer
from dray.api.validation import validate
from tests.allocation.selecting import DRIVER, LISTS, PLAIN, A, C, device, selector

MOST_CALLS = 1_000_000
"""To compile a text of 10 KiB: a hundred calls for each character."""
MOST_OF_ONE_CALL = 1_000_000
"""What the call that goes beyond the limit may cost."""
GPU = device({"memory": "40Gi"}, model="A100", index=3, ecc=True, driver=SemVer.parse("1.2.3"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("true", True),
        (f'device.driver == "{DRIVER}"', True),
        (f'{A}.model == "A100" && {A}.index > 2', True),
        (f"{A}.ecc", True),
        (f"{A}.index == 3.0", True),
        (f'{A}.driver.isGreaterThan(semver("1.0.0"))', True),
        (f'{C}.memory.compareTo(quantity("80Gi")) >= 0', False),
        (f'{A}.nothing == "x"', "no such key: nothing"),
        ('device.attributes["other"].x', "no such key: x"),
        ('"other" in device.attributes', False),
        (f'"{DRIVER}" in device.capacity', True),
        ('has(device.attributes["other"].x)', False),
        ("has(device.attributes.other)", True),
        ('device.attributes["other"].?x.orValue(true)', True),
        ("device.allowMultipleAllocations", False),
        (f'{A}.nothing == "x" || {A}.ecc', True),
        (f'{A}.nothing == "x" && !{A}.ecc', False),
        (f"{A}.model", "CEL result of type string could not be converted to bool"),
        (f"{A}.model > 3", "no such overload"),
        ("[1].map(x, 1 / (x - 1)) == [1]", "division by zero"),
    ],
)
def test_answers(text: str, answer: bool | str) -> None:
    found: bool | str
    for features in (PLAIN, LISTS):
        try:
            found = selector(text, features).matches(DRIVER, GPU)
        except SelectorError as error:
            assert error.compiled
            found = str(error)
        assert found == answer


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("true", 0),
        ('device.driver == ""', 2),
        ('device.driver == "dra.example.com"', 4),
        (f"{A}.name", 4),
        (f"{A}.name > 0", 5),
        (f'{A}.name == "fish"', 5),
        (f'{A}.name.isGreaterThan(semver("0.0.1"))', 6),
        (f'{C}.name.isGreaterThan(quantity("1Ki"))', 6),
        (f'"{DRIVER}" in device.attributes', 3),
        (f"cel.bind(dra, {A}, dra.name)", 15),
        (f'{A}.name.includes("fish")', 52),
        (f"1 in {A}.name", 68),
        ("device.allowMultipleAllocations == true", 3),
        (" && ".join([f'{A}.name == "fish"'] * 10), 50),
        (f"{A}.name.exists(x, x > 0)", 5 + 6 * 64),
    ],
)
def test_estimated_costs_are_those_of_kubernetes(text: str, cost: int) -> None:
    assert selector(text).estimated_cost == cost


def test_the_result_is_a_bool_or_unknown() -> None:
    for features, text, kind in (
        (PLAIN, "1", "int"),
        (LISTS, "'a'", "string"),
        (PLAIN, "dyn(true)", "dyn"),
        (PLAIN, "[true]", "list(bool)"),
        (PLAIN, "optional.of(true)", "optional_type(bool)"),
    ):
        with pytest.raises(CompileError) as caught:
            selector(text, features)
        assert str(caught.value) == f"must evaluate to bool or the unknown type, not {kind}"
        assert not caught.value.compiled
    assert selector("dyn(true)", LISTS).matches(DRIVER, GPU)
    assert selector("dyn(optional.of(true))", LISTS).matches(DRIVER, GPU)


def test_a_text_that_does_not_compile() -> None:
    with pytest.raises(CompileError) as caught:
        selector("device.nope == 1 && also", PLAIN)
    assert caught.value.text == (
        "compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n"
        " | device.nope == 1 && also\n"
        " | ......^\n"
        "ERROR: <input>:1:21: undeclared reference to 'also' (in container '')\n"
        " | device.nope == 1 && also\n"
        " | ....................^"
    )
    assert "\n" not in str(caught.value)
    with pytest.raises(CompileError, match=r"^program instantiation failed: ") as caught:
        selector("int('x') == 1")
    assert caught.value.is_internal


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        ("nope", ["undeclared reference to 'nope' (in container '') (at character 1)"]),
        (
            "device.nope == 1 && also",
            [
                "undefined field 'nope' (at character 7)",
                "undeclared reference to 'also' (in container '') (at character 21)",
            ],
        ),
    ],
)
def test_in_one_line_a_fault_says_at_which_character_it_is(text: str, heads: list[str]) -> None:
    """Counted from 1; a field is at its dot."""
    with pytest.raises(CompileError) as caught:
        selector(text, PLAIN)
    assert str(caught.value) == f"compilation failed: {'; '.join(heads)}"


def test_gates_bind_new_texts_but_not_stored_ones() -> None:
    for text in ("device.allowMultipleAllocations", f"{A}.model.includes('A100')"):
        assert selector(text, PLAIN, stored=True).expression == text
        with pytest.raises(CompileError):
            selector(text, PLAIN, stored=False)
        assert selector(text, LISTS, stored=False).expression == text
    lists = device(names=["a", "b"])
    assert selector(f"{A}.names.includes('b')").matches(DRIVER, lists)
    with pytest.raises(SelectorError, match="attribute names: unsupported attribute value"):
        selector(f"{A}.names.includes('b')", PLAIN).matches(DRIVER, lists)


def test_one_bad_attribute_fails_every_selector() -> None:
    for bad, text in (
        (device(good=1, nothing=None), "attribute nothing: unsupported attribute value"),
        (
            Device(attributes={"v": DeviceAttribute(version_value="v1")}),
            "attribute v: parse semantic version: No Major.Minor.Patch elements found",
        ),
    ):
        with pytest.raises(SelectorError) as caught:
            selector("true").matches(DRIVER, bad)
        assert str(caught.value) == text


def test_the_cost_limit_at_run_time() -> None:
    bomb = selector("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))")
    assert bomb.estimated_cost > COST_LIMIT
    with pytest.raises(SelectorError, match="actual cost limit exceeded"):
        bomb.matches(DRIVER, GPU)
    match, error, cost = bomb.accepts_with_cost(bomb.prepare(DRIVER, GPU))
    assert match is None and "actual cost limit exceeded" in error and cost is not None and cost > COST_LIMIT


def test_costs_are_counted() -> None:
    found = selector(f'{A}.model == "A100"')
    assert found.accepts_with_cost(found.prepare(DRIVER, GPU)) == (True, "", 5)
    broken = found.prepare(DRIVER, device(x=None))
    assert found.accepts_with_cost(broken) == (None, "attribute x: unsupported attribute value", None)


def test_compiled_once_and_prepared_once() -> None:
    assert compile_selector("true", PLAIN) is compile_selector("true", Features(admin_access=True))
    assert compile_selector("true", PLAIN) is not compile_selector("true", LISTS)
    selectors = CompiledSelectors(PLAIN)
    assert selectors.matches("device.driver == 'x'", "x", GPU)
    assert not selectors.matches("device.driver == 'x'", "y", GPU)
    assert selectors.prepared("x", GPU) is selectors.prepared("x", GPU)
    assert selectors.prepared("x", GPU) is not selectors.prepared("y", GPU)
    for _ in range(2):
        with pytest.raises(CompileError):
            selectors.matches("nope", "x", GPU)


def fault(
    expression: str, *, stored: bool = False, features: Features = ADMITTED
) -> tuple[Reason, str] | None:
    found = check_selector(expression, Path("spec"), stored, features)
    return (found[0].reason, found[0].message) if found else None


def test_what_an_api_server_says() -> None:
    assert fault("device.driver == 'x'") is None
    assert fault("1") == (
        Reason.INVALID,
        'Invalid value: "1": must evaluate to bool or the unknown type, not int',
    )
    reason, message = fault("noSuchVar") or (None, "")
    assert reason == Reason.INVALID
    assert message.startswith(
        'Invalid value: "noSuchVar": compilation failed: ERROR: <input>:1:1: undeclared'
    )
    assert fault("int('x') == 1", stored=True) == (
        Reason.INTERNAL,
        "Internal error: program instantiation failed: type conversion error from 'string' to 'int'",
    )
    assert fault("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))") == (
        Reason.FORBIDDEN,
        "Forbidden: too complex, exceeds cost limit",
    )
    assert fault(f"{A}.x.includes(1)") is not None
    assert fault(f"{A}.x.includes(1)", stored=True) is None
    assert fault(f"{A}.x.includes(1)", features=LISTS) is None


def test_validation_takes_it() -> None:
    selectors = (DeviceSelector(cel=CELDeviceSelector(expression="device.nope")),)
    found = DeviceClass(metadata=ObjectMeta(name="class"), spec=DeviceClassSpec(selectors=selectors))
    errors = validate(DEVICE_CLASSES, found, check_selector=check_selector)
    assert [error.field for error in errors] == ["spec.selectors[0].cel.expression"]


def test_nothing_runs_away() -> None:
    """In a process of its own that may have half a gigabyte, so that memory without bounds is seen. What takes long is counted."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.allocation.huge_selectors"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    works: dict[str, tuple[int, int, int]] = json.loads(found.stdout)
    assert len(works) > 30
    for name, (calls, cost, steps) in works.items():
        assert calls < MOST_CALLS, name
        assert cost < COST_LIMIT + MOST_OF_ONE_CALL and steps <= COST_LIMIT, name


@pytest.mark.parametrize("below", ["name.part", "name.part.part", "name.part.part.part"])
def test_what_lies_below_an_attributes_value_may_be_of_any_size(below: str) -> None:
    """An attribute has nothing below it; Kubernetes' estimate does not know that, and such a selector is too complex."""
    text = f'{A}.{below}.lowerAscii() == "a"'
    assert selector(text).estimated_cost > 10**18
    found = check_selector(text, Path("spec"), stored=False)
    assert [(one.reason, "exceeds cost limit" in one.message) for one in found] == [(Reason.FORBIDDEN, True)]
