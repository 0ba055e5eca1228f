"""Trees, types, references and error texts are those of cel-go, node by node."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cel.check.checker import check
from dray.cel.faults import CelError, render
from dray.cel.syntax.parser import parse
from tests.cel.trees import dumped, environment, read, references_of, types_of, without_numbers

CASES: list[dict[str, Any]] = read("cases")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:60])
def test_an_expression_becomes_what_cel_go_makes_of_it(case: dict[str, Any]) -> None:
    text = case["text"]
    if "parse_error" in case:
        with pytest.raises(CelError):
            parse(text, options=environment().parse_options)
        return
    parsed = parse(text, options=environment().parse_options)
    assert dumped(parsed) == case["parsed"]
    if "check_error" in case:
        with pytest.raises(CelError) as caught:
            check(parsed, environment())
        assert without_numbers(render(caught.value, text)) == without_numbers(case["check_error"])
        return
    checked = check(parsed, environment())
    assert dumped(checked.expr) == case.get("checked", case["parsed"])
    assert types_of(checked) == case["types"]
    assert references_of(checked) == case["refs"]


def test_the_cases_cover_all_outcomes_and_macros() -> None:
    for outcome, least in (("parse_error", 100), ("check_error", 150), ("types", 250)):
        assert sum(outcome in case for case in CASES) >= least
    texts = "\n".join(case["text"] for case in CASES if "types" in case)
    for macro in environment().parse_options.macros.values():
        assert f"{macro.function}(" in texts
