"""The bound on work: no evaluation does more, and what can grow without end has none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from dray.allocation.device_values import prepare
from dray.allocation.features import Features
from dray.allocation.selector import CompileError, Selector, compile_selector
from dray.allocation.selector_cases import SelectorCase
from dray.api.codec.json_codec import view
from dray.api.resource.slice import Device
from dray.cel.exact.run import WORK_LIMIT
from dray.cel.faults import EvaluationError
from dray.cel.program import FAST_WORK
from tests.cases import read_cases

CASES = Path(__file__).parents[1] / "cases" / "random.jsonl"
FEATURES = Features(consumable_capacity=True, list_type_attributes=True)


def _work(selector: Selector, case: SelectorCase) -> int:
    made = Device(attributes=case.device.attributes, capacity=case.device.capacity)
    value = prepare(case.device.driver, made, lists=True)
    run = selector.program.start({"device": value.value})
    if not value.fault:
        with contextlib.suppress(EvaluationError):
            selector.program.finish(run)
    return WORK_LIMIT - run.left


def test_no_recorded_case_does_more() -> None:
    tried = 0
    for raw in read_cases(CASES)[::4]:
        del raw["answer"]
        case = view(raw, SelectorCase)
        try:
            selector = compile_selector(case.expression, FEATURES)
        except CompileError:
            continue
        if selector.program.work <= FAST_WORK:
            tried += 1
            assert _work(selector, case) <= selector.program.work, case.expression
    assert tried > 20


@pytest.mark.parametrize(
    "text",
    [
        "device.attributes['d'].model == 'a' && device.driver.startsWith('g')",
        "device.attributes['d'].words.exists(word, word == 'a')",
        "'a' in device.attributes['d'].words",
        "device.capacity['d'].memory.compareTo(quantity('1Gi')) > 0",
        "lists.range(20000).all(x, x >= 0)",
        "cel.bind(a, [1], cel.bind(b, [a, a], b == b))",
        "{dyn([1]): 1}.size() == 1",
    ],
)
def test_what_is_small_is_fast(text: str) -> None:
    assert compile_selector(text, FEATURES).program.is_fast


@pytest.mark.parametrize(
    "body", ["dyn({0}) in ['a']", "{{dyn({0}): 1}}.size() == 1", "{0} == {0}", "'%s'.format([{0}]) == ''"]
)
def test_what_doubles_is_not(body: str) -> None:
    names = [f"cel.bind(a{at + 1}, [a{at}, a{at}], " for at in range(30)]
    text = "cel.bind(a0, ['x'], " + "".join(names) + body.format("a30") + ")" * 31
    program = compile_selector(text, FEATURES).program
    assert (program.is_fast, program.work) == (False, WORK_LIMIT)
