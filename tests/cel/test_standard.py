"""Standard functions: arithmetic, conversions, times. Texts and ranges are cel-go's."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.cel import types as t
from dray.cel.faults import CelError
from dray.cel.library import standard
from dray.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint
from tests.cel.evaluating import evaluate, program

HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x / 2", -3),
        ("x % 4", -3),
        ("-x", 7),
        ("x * x - x", 56),
        ("[x] + [1]", (-7, 1)),
        ("'a' + 'b'", "ab"),
        ("b'a' + b'b'", b"ab"),
        ("7u % 4u + 1u", Uint(4)),
        ("1.0 / 0.0", math.inf),
        ("-1.0 / 0.0", -math.inf),
        ("duration('1h') + duration('30m') - duration('1s')", Duration(HOUR * 3 // 2 - 10**9)),
        ("timestamp(0) + duration('1h')", Timestamp(HOUR)),
        ("duration('1h') + timestamp(0)", Timestamp(HOUR)),
        ("timestamp(10) - timestamp(0)", Duration(10**10)),
        ("timestamp(3600) - duration('1h')", Timestamp(0)),
    ],
)
def test_arithmetic(text: str, value: Any) -> None:
    assert evaluate(text, x=-7) == value
    assert type(evaluate(text, x=-7)) is type(value)


@pytest.mark.parametrize(
    ("text", "value", "error"),
    [
        ("x + 1", INT_MAX, "integer overflow"),
        ("x - 1", INT_MIN, "integer overflow"),
        ("x * 2", INT_MAX, "integer overflow"),
        ("-x", INT_MIN, "integer overflow"),
        ("x / -1", INT_MIN, "integer overflow"),
        ("x % -1", INT_MIN, "integer overflow"),
        ("x / 0", 1, "division by zero"),
        ("x % 0", 1, "modulus by zero"),
        ("x + 1u", Uint(UINT_MAX), "unsigned integer overflow"),
        ("x - 1u", Uint(0), "unsigned integer overflow"),
        ("x * 2u", Uint(UINT_MAX), "unsigned integer overflow"),
        ("x / 0u", Uint(1), "division by zero"),
        ("x % 0u", Uint(1), "modulus by zero"),
        ("x + 1", 1.5, "no such overload"),
        ("x + 1", None, "no such overload: _+_"),
        ("x - 1", "a", "no such overload: _-_"),
        ("-x", "a", "no such overload: -_"),
        ("-x", True, "no such overload"),
        ("x < 1", "a", "no such overload"),
        ("x < 1", True, "no such overload"),
        ("x < 1", (), "no such overload: _<_"),
        ("x < 1.0", math.nan, "NaN values cannot be ordered"),
        ("!x", 1, "no such overload"),
        ("size(x)", 1, "no such overload: size"),
        ("x.startsWith('a')", 1, "no such overload"),
        ("x.matches('a')", 1, "no such overload: matches"),
        ("'a'.matches(x)", "(", "error parsing regexp: missing closing ): `(`"),
        ("x + duration('1h')", Timestamp(253_402_300_799 * 10**9), "timestamp overflow"),
        ("x + x", Duration(INT_MAX), "integer overflow"),
        ("x - timestamp('0001-01-01T00:00:00Z')", Timestamp(253_402_300_799 * 10**9), "integer overflow"),
    ],
)
def test_what_goes_wrong(text: str, value: Any, error: str) -> None:
    assert evaluate(text, x=value) == f"error: {error}"


@pytest.mark.parametrize(
    ("text", "given", "value"),
    [
        ("int(x)", "-12", -12),
        ("int(x)", -3.9, -3),
        ("int(x)", Uint(3), 3),
        ("int(x)", Duration(5), 5),
        ("int(x)", Timestamp(1_999_999_999), 1),
        ("int(x)", Timestamp(-1), -1),
        ("uint(x)", "12", Uint(12)),
        ("uint(x)", 3.9, Uint(3)),
        ("double(x)", "1e3", 1000.0),
        ("double(x)", "-Inf", -math.inf),
        ("double(x)", 2**53 + 1, float(2**53)),
        ("string(x)", 1e6, "1e+06"),
        ("string(x)", 123456.7, "123456.7"),
        ("string(x)", -0.0045, "-0.0045"),
        ("string(x)", 1e-5, "1e-05"),
        ("string(x)", math.inf, "+Inf"),
        ("string(x)", Uint(7), "7"),
        ("string(x)", True, "true"),
        ("string(x)", b"\xc3\xa9", "é"),
        ("string(x)", Duration(1_500_000_000), "1.5s"),
        ("string(x)", Duration(-1), "-0.000000001s"),
        ("string(x)", Timestamp(1_500_000_000, 5400), "1970-01-01T01:30:01.5+01:30"),
        ("bytes(x)", "é", b"\xc3\xa9"),
        ("bool(x)", "t", True),
        ("bool(x)", "False", False),
        ("duration(x)", "1h30m-", "error: type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("duration(x)", "-1.5h", Duration(-HOUR * 3 // 2)),
        ("duration(x)", 5, "error: type conversion error from 'int' to 'google.protobuf.Duration'"),
        ("timestamp(x)", "2024-02-29T12:00:00+02:00", Timestamp(1_709_200_800 * 10**9)),
        (
            "timestamp(x)",
            "2023-02-29T12:00:00Z",
            "error: type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        ("timestamp(x)", "0000-12-31T12:00:00Z", "error: timestamp overflow"),
        ("timestamp(x)", "9999-12-31T23:59:59.999999999Z", Timestamp(253_402_300_800 * 10**9 - 1)),
        ("timestamp(x)", 253_402_300_800, "error: timestamp overflow"),
        ("int(x)", 2.0**63, "error: integer overflow"),
        ("int(x)", -(2.0**63), "error: integer overflow"),
        ("int(x)", math.nan, "error: integer overflow"),
        ("int(x)", Uint(UINT_MAX), "error: integer overflow"),
        ("int(x)", "9223372036854775808", "error: type conversion error from 'string' to 'int'"),
        ("int(x)", "1_000", "error: type conversion error from 'string' to 'int'"),
        ("int(x)", True, "error: no such overload: int(bool)"),
        ("uint(x)", -1, "error: unsigned integer overflow"),
        ("uint(x)", -0.5, "error: unsigned integer overflow"),
        ("uint(x)", "+1", "error: type conversion error from 'string' to 'uint'"),
        ("double(x)", "1e999", "error: type conversion error from 'string' to 'double'"),
        ("double(x)", "1.", 1.0),
        ("double(x)", ".5e1", 5.0),
        ("double(x)", ".", "error: type conversion error from 'string' to 'double'"),
        ("double(x)", "0x1.8p1", 3.0),
        ("double(x)", "0x.p1", "error: type conversion error from 'string' to 'double'"),
        ("double(x)", f"{'0' * 300_000}x", "error: type conversion error from 'string' to 'double'"),
        ("double(x)", f"0x{'0' * 300_000}", "error: type conversion error from 'string' to 'double'"),
        ("double(x)", f"{'0' * 300_000}1.5", 1.5),
        ("int(x)", f"-{'0' * 300_000}1", -1),
        ("int(x)", "1" * 21, "error: type conversion error from 'string' to 'int'"),
        ("uint(x)", "1" * 300_000, "error: type conversion error from 'string' to 'uint'"),
        ("string(x)", b"\xff", "error: invalid UTF-8 in bytes, cannot convert to string"),
        ("string(x)", (), "error: no such overload: string(list)"),
        ("bool(x)", "yes", "error: type conversion error from 'string' to 'bool'"),
        ("type(x) == list", (), True),
        ("type(type(x)) == type", 1, True),
        ("type(x)", Duration(1), t.DURATION),
    ],
)
def test_conversions(text: str, given: Any, value: Any) -> None:
    found = evaluate(text, x=given)
    assert found == value
    assert type(found) is type(value)


def test_constant_conversions_are_made_when_the_program_is() -> None:
    with pytest.raises(
        CelError, match="program instantiation failed: type conversion error from 'string' to 'int'"
    ):
        program('int("x") == 1')
    with pytest.raises(CelError, match="program instantiation failed: unsigned integer overflow"):
        program("true || uint(-1) == 1u")
    with pytest.raises(CelError, match="program instantiation failed: error parsing regexp: missing closing"):
        program("matches(x, '(a')", x=t.STRING)
    assert evaluate("1 / 0 == 1") == "error: division by zero"
    assert evaluate('false && int("1") == 2') is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.getFullYear()", 2023),
        ("x.getFullYear('-13:30')", 2022),
        ("x.getMonth()", 0),
        ("x.getMonth('America/New_York')", 11),
        ("x.getDate()", 1),
        ("x.getDate('Asia/Kathmandu')", 1),
        ("x.getDayOfMonth()", 0),
        ("x.getDayOfYear('-03:00')", 364),
        ("x.getDayOfWeek()", 0),
        ("x.getDayOfWeek('US/Pacific')", 6),
        ("x.getHours('Asia/Kathmandu')", 7),
        ("x.getHours('+02:30')", 4),
        ("x.getMinutes('+02:30')", 15),
        ("x.getMinutes('-02:30')", 15),
        ("x.getSeconds()", 7),
        ("x.getMilliseconds()", 345),
        ("x.getHours('Nowhere/At_All')", "error: unknown time zone Nowhere/At_All"),
        ("x.getHours('../../etc/passwd')", "error: unknown time zone ../../etc/passwd"),
        ("x.getHours('a:b')", "error: invalid time zone offset 'a:b'"),
        ("timestamp('9999-12-31T23:00:00Z').getFullYear('+02:00')", 10000),
        ("timestamp('0001-01-01T01:00:00Z').getFullYear('-02:00')", 0),
        ("duration('-3723.5s').getHours()", -1),
        ("duration('3723.5s').getMinutes()", 62),
        ("duration('-3723.5s').getSeconds()", -3723),
        ("duration('3.5s').getMilliseconds()", 3500),
    ],
)
def test_times(text: str, value: Any) -> None:
    assert evaluate(text, x=Timestamp(1_672_537_507_345_678_901)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'ÿ😀'.size() + size(b'\\303\\277')", 4),
        ("'hello'.contains('ell') && 'hello'.startsWith('he') && !'hello'.endsWith('he')", True),
        ("x in {1: 'a'} && x in [1.0] && !(x in [true])", True),
        ("x in []", False),
        ("{'a': 1, 'b': 2}.size() == [1, 2].size()", True),
        ("'aXb'.matches('[A-Z]') && matches('abc', '^a.c$')", True),
        ("dyn(x) == 1u", True),
        ("x == 1.0 && x != 'a' && x != true", True),
        ("[1, x] == [1.0, 1u] || false", "compile"),
    ],
)
def test_strings_and_collections(text: str, value: Any) -> None:
    if value == "compile":
        with pytest.raises(CelError):
            evaluate(text, x=1)
    else:
        assert evaluate(text, x=1) == value


def test_every_overload_has_an_id_of_its_own() -> None:
    names = [overload.id for overload in standard.LIBRARY.overloads]
    assert len(names) == len(set(names)) == 163
