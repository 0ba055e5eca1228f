"""The committed cases have the Go evaluator's answers; needs no Go."""

from __future__ import annotations

from collections import Counter

import pytest

from dray.allocation.selector_cases import run_selector_case
from dray.errors import InvalidError
from tests.allocation.selector_differences import excuse
from tests.cases import read_cases
from tests.oracle.corpus import SELECTOR


def test_committed_cases() -> None:
    causes: Counter[str | None] = Counter()
    for case in read_cases(SELECTOR):
        answer = case.pop("answer")
        ours = run_selector_case(case)
        cause = excuse(case["expression"], answer, ours)
        assert cause != "", f"{case}\nexpected {answer}\ngot {ours}"
        if cause is None:
            assert (
                ours["compileError"].partition("\n")[0].split(": ")[:1]
                == (answer["compileError"].partition("\n")[0].split(": ")[:1])
            )
        causes[cause] += 1
    assert causes == {None: 497, "protobuf messages": 3}


SLICED = "cannot slice(2, 1), start index must be less than or equal to end index"


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
        ('optional.of(quantity("1")) == optional.of(quantity("0").add(1))', None, "no such overload", 6),
        ('optional.of(quantity("1")) != optional.of(quantity("0").add(1))', True, "", 6),
        ('optional.of(quantity("0").add(1)) == optional.of(quantity("1"))', True, "", 6),
        ('dyn(optional.of(quantity("1"))) == dyn(optional.of(null))', None, "no such overload", 6),
        ('optional.of(quantity("1")) in [optional.of(quantity("0").add(1))]', False, "", 16),
        ('[optional.of(quantity("1"))] == [optional.of(quantity("0").add(7))]', True, "", 26),
        ('device.attributes["d"].none.sort() == [] || true', True, "", 5),
        (
            'device.attributes["d"].none.distinct() == [] || true',
            None,
            "internal error: no such key: none",
            4,
        ),
        ("[1, 2].slice(2, 1).sort()[0] == 1", None, "internal error: " + SLICED, 12),
        ("[1, 2].sortBy(x, 1 / 0) == [] || true", None, "internal error: division by zero", 29),
        ('dyn("abc").distinct() == [] || true', None, "internal error: unexpected string", 0),
        ('[1].flatten(int("0") / 0) == [] || true', None, "internal error: division by zero", 1),
        ('device.attributes["d"].none.reverse() == [] || true', True, "", 16),
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


@pytest.mark.parametrize(
    ("expression", "match", "error"),
    [
        ("google.protobuf.Int32Value{value: 1} == 1", None, "compile"),
        ('device.attributes["d"].t.allowed()', None, "compile"),
        ("dyn({1: 2})[dyn(b'a')] == 1 || true", True, ""),
        ('size({dyn(semver("1.0.0")): 1}) == 1', True, ""),
        ("dyn([]) in {dyn([]): 1}", True, ""),
        ('dyn(quantity("1")) in {dyn(quantity("1")): 1}', True, ""),
        ("dyn(b'a') in {dyn(b'a'): 1}", True, ""),
        ('quantity("4Gi").sub(-9223372036854775808).isGreaterThan(quantity("0"))', True, ""),
    ],
)
def test_where_we_differ_on_purpose(expression: str, match: bool | None, error: str) -> None:
    """The differences that docs/reference/cel.md lists, as far as an answer shows them."""
    device = {"driver": "d", "attributes": {"t": {"bool": True}}}
    ours = run_selector_case({"name": "n", "expression": expression, "features": [], "device": device})
    assert (ours["match"], ours["error"], bool(ours["compileError"])) == (match, "", error == "compile")


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
