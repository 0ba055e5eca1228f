"""The committed cases have the Go evaluator's answers; needs no Go."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dray.allocation.selector_cases import run_selector_case
from dray.errors import InvalidError
from tests.allocation.selector_differences import excuse
from tests.oracle.corpus import SELECTOR


def test_committed_cases() -> None:
    causes: Counter[str] = Counter()
    for line in SELECTOR.read_text().splitlines():
        case = json.loads(line)
        answer = case.pop("answer")
        ours = run_selector_case(case)
        cause = excuse(case["expression"], answer, ours)
        assert cause != "", f"{case}\nexpected {answer}\ngot {ours}"
        if cause is None:
            assert (
                ours["compileError"].partition("\n")[0].split(": ")[:1]
                == (answer["compileError"].partition("\n")[0].split(": ")[:1])
            )
        causes[cause or "none"] += 1
    assert causes["none"] >= 480


@pytest.mark.parametrize(
    ("expression", "match", "error", "cost"),
    [
        ('quantity("1") == quantity("0").add(1)', None, "no such overload", 4),
        ('quantity("0").add(1) == quantity("1")', True, "", 4),
        ('quantity("1") != quantity("0").add(1)', True, "", 4),
        ('quantity("1") in [quantity("0").add(1)]', False, "", 14),
        ('[quantity("1")] == [quantity("0").add(7)]', True, "", 24),
        ('has((device.attributes["d"].t ? {"a": 1} : {"b": 1}).a)', True, "", 4),
        ('has((true ? {"a": 1} : {"b": 1}).a)', True, "", 0),
        ('[device.attributes["d"].t].flatten().size() == 1', True, "", 28),
        ("size({dyn({1: 1}): 1}) > 0", True, "", 2),
        ("dyn({}) in {dyn({}): 1}", False, "", 1),
        ('[device.attributes["d"].?none.orValue([]).sum()] == [0]', True, "", None),
    ],
)
def test_the_evaluators_odd_answers(
    expression: str, match: bool | None, error: str, cost: int | None
) -> None:
    device = {"driver": "d", "attributes": {"t": {"bool": True}}}
    ours = run_selector_case({"name": "n", "expression": expression, "features": [], "device": device})
    assert ours["compileError"] == ""
    assert (ours["match"], ours["error"]) == (match, error)
    assert cost is None or ours["cost"] == cost


def test_a_duration_of_many_digits_is_none() -> None:
    case = {"name": "n", "expression": f'duration("{"9" * 9000}s") > duration("1s")'}
    assert "invalid duration argument" in run_selector_case(case)["compileError"]
    zeros = {"name": "n", "expression": f'duration("{"0" * 5000}1s") == duration("1s")'}
    assert run_selector_case(zeros)["match"] is True


def test_a_case_may_be_of_a_new_text() -> None:
    case = {"name": "n", "expression": 'device.attributes["d"].x.includes(1)', "features": ["SomeOther"]}
    assert run_selector_case(case)["error"] == "no such key: x"
    assert (
        "undeclared reference to 'includes'"
        in run_selector_case(case | {"environment": "new"})["compileError"]
    )


def test_what_is_no_case() -> None:
    with pytest.raises(InvalidError):
        run_selector_case({"name": "n", "expression": 1})
