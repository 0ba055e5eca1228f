from __future__ import annotations

import pytest

from dray.cel.program import compile_expression
from dray.cel.values import EvaluationCancelledError
from tests.cel.library.answers import complaints, environment, evaluate, failure


def test_strings_answer_as_in_kubernetes() -> None:
    assert complaints("strings") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'tacocat'.charAt(7)", ""),
        ("'héllo😀'.charAt(5)", "😀"),
        ("'😀x😀'.indexOf('😀', 1)", 2),
        ("'abcabc'.lastIndexOf('abc', 2)", 0),
        ("'abc'.indexOf('', 99)", 99),
        ("'ÀB'.lowerAscii()", "Àb"),
        ("'ab'.replace('', '-')", "-a-b-"),
        ("'a,b,c'.split(',', 2)", ("a", "b,c")),
        ("'abc'.split('', 2)", ("a", "bc")),
        ("'\\u2003 x\\u00a0'.trim()", "x"),
        ("['a', 'b'].join('-')", "a-b"),
        (r"strings.quote('a\"\n')", '"a\\"\\n"'),
    ],
)
def test_positions_count_code_points(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(-9223372036854775808)", "index out of range: -9223372036854775808"),
        ("'abc'.substring(-9223372036854775808, 2)", "index out of range: -9223372036854775808"),
        ("'abc'.indexOf('b', -1)", "index out of range: -1"),
        ("[dyn('a'), dyn(1)].join()", "join: invalid input: 1"),
    ],
)
def test_errors(text: str, error: str) -> None:
    assert failure(text) == error


def test_a_result_that_would_fill_the_memory_is_cut_off() -> None:
    grown = "cel.bind(s, 'x'.replace('', 'aaaaaaaa').replace('', 'bbbbbbbb').replace('', 'cccccccc')"
    text = f"{grown}.replace('', 'dddddddd').replace('', 'eeeeeeee'), s.replace('', s).size() > 0)"
    with pytest.raises(EvaluationCancelledError):
        evaluate(text)
    with pytest.raises(EvaluationCancelledError):
        evaluate(f"{grown}, lists.range(100000).map(i, s).join(s).size() > 0)")


def test_the_library_is_version_2() -> None:
    assert {overload.function for overload in environment().overloads.values()}.isdisjoint(
        {"math.greatest", "base64.encode"}
    )
    assert compile_expression("['a'].reverse() == ['a']", environment()).evaluate({"x": 1}) is True
