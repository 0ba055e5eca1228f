"""The specification's own tests: all values and errors, but for the tests listed here with the reason."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from dray.cel import types as t
from dray.cel.environment import Environment, Options
from dray.cel.equality import equal
from dray.cel.faults import CelError
from dray.cel.library import strings
from dray.cel.program import Program, compile_expression
from dray.cel.values import Duration, Timestamp, type_name
from tests.cel.evaluating import LIBRARIES, outcome
from tests.cel.spec import FOLDER, ObjectValue, SpecTest, spec_tests

UNCHECKED = "only runs without the type checker, which Kubernetes always runs"
NOT_HERE = {
    "basic/variables/unbound_is_runtime_error": UNCHECKED,
    "basic/functions/unbound_is_runtime_error": UNCHECKED,
    "comparisons/eq_literal/not_eq_list_length": UNCHECKED,
    "comparisons/eq_literal/eq_mixed_types": UNCHECKED,
    "comparisons/eq_literal/eq_list_elem_mixed_types": UNCHECKED,
    "comparisons/ne_literal/ne_mixed_types": UNCHECKED,
    "parse/receiver_function_names/*": UNCHECKED,
    "bindings_ext/bind/shadowing_namespace_resolution*": "cel-go 0.26 prefers the container's name; Kubernetes has no container",
    "fields/qualified_identifier_resolution/map_key_float": "cel-go allows doubles as keys",
    "fields/qualified_identifier_resolution/map_value_repeat_key*": "cel-go lets the last of equal keys win",
    "optionals/optionals/map_null_entry_no_such_key": "an option of cel-go that Kubernetes leaves off: a field of null is missing",
    "optionals/optionals/map_present_key_invalid_field": "an option of cel-go that Kubernetes leaves off: a field of 0 is missing",
    "timestamps/duration_converters/get_milliseconds": "cel-go counts the whole duration in milliseconds",
    "string_ext/reverse/*": "not in version 2 of the strings library, which Kubernetes has",
}
NOT_HERE |= dict.fromkeys(
    (
        "string_ext/format/scientific notation formatting clause",
        "string_ext/format/default precision for fixed-point clause with int",
        "string_ext/format/default precision for fixed-point clause with uint",
        "string_ext/format/default precision for scientific notation",
        "string_ext/format/default precision for scientific notation with int",
        "string_ext/format/default precision for scientific notation with uint",
        "string_ext/format/NaN support for scientific notation",
        "string_ext/format/positive infinity support for scientific notation",
        "string_ext/format/negative infinity support for scientific notation",
        "string_ext/format/NaN support for decimal",
        "string_ext/format/positive infinity support for decimal",
        "string_ext/format/negative infinity support for decimal",
        "string_ext/format/positive infinity support for fixed-point",
        "string_ext/format/negative infinity support for fixed-point",
        "string_ext/format/list support for string",
        "string_ext/format/map support for string",
        "string_ext/format/map support (all key types)",
        "string_ext/format/dyntype support for scientific notation",
        "string_ext/format/dyntype NaN/infinity support",
        "string_ext/format/dyntype support for lists",
        "string_ext/format/dyntype support for maps",
        "string_ext/format/scientific notation formatting clause in a string variable",
        "string_ext/value_errors/indexof_out_of_range",
        "string_ext/value_errors/lastindexof_out_of_range",
    ),
    "version 2 of the strings library, which Kubernetes has, does it differently",
)
MESSAGES = "is about protobuf messages, which Kubernetes' environment does not have"


FILES = {
    *("basic", "bindings_ext", "comparisons", "conversions", "fields", "fp_math", "integer_math"),
    *("lists", "macros", "optionals", "parse", "string", "string_ext", "timestamps"),
}


def _is_meant(pattern: str, test: SpecTest) -> bool:
    return test.id == pattern or (pattern.endswith("*") and test.id.startswith(pattern[:-1]))


def _reason(test: SpecTest) -> str | None:
    if test.needs_messages and not test.fails:
        return MESSAGES
    return next((reason for pattern, reason in NOT_HERE.items() if _is_meant(pattern, test)), None)


@cache
def _base() -> Environment:
    return Environment({}, (*LIBRARIES, strings.LIBRARY))


def _plain(value: Any) -> Any:
    """Durations and timestamps come as messages."""
    if not isinstance(value, ObjectValue):
        return value
    seconds, nanos = (int(value.fields.get(name, ["0"])[0]) for name in ("seconds", "nanos"))
    kind = {"google.protobuf.Duration": Duration, "google.protobuf.Timestamp": Timestamp}[value.name]
    return kind(seconds * 10**9 + nanos)


def _program(test: SpecTest) -> Program:
    options = Options(
        container=test.container, escaped_names=True, homogeneous_literals=False, validates_literals=False
    )
    variables = {**dict.fromkeys(test.bindings, t.DYN), **test.variables}
    return compile_expression(test.expr, _base().extend(variables, options=options))


def _is_expected(test: SpecTest, found: Any) -> bool:
    if test.fails:
        return isinstance(found, str) and found.startswith("error: ")
    wanted = _plain(test.value)
    if isinstance(wanted, float) and wanted != wanted:
        return bool(found != found)
    return not (isinstance(found, str) and found.startswith("error: ")) and _same(found, wanted)


def _same(found: Any, wanted: Any) -> bool:
    return equal(found, wanted) and type_name(found) == type_name(wanted)


def _complaint(test: SpecTest) -> str | None:
    bindings = {name: _plain(value) for name, value in test.bindings.items()}
    try:
        compiled = _program(test)
    except CelError as error:
        return None if test.fails else f"{test.id}: {test.expr}: {error}"
    for evaluate in (compiled.evaluate, compiled.evaluate_exactly):
        found = outcome(evaluate, bindings)
        if not _is_expected(test, found):
            return f"{test.id}: {test.expr} gives {found!r}, not {'an error' if test.fails else repr(test.value)}"
    return None


@pytest.mark.parametrize("file", sorted(path.stem for path in FOLDER.glob("*.textproto")))
def test_the_specification_holds(file: str) -> None:
    applicable = [test for test in spec_tests(file) if _reason(test) is None]
    assert applicable
    assert [complaint for complaint in map(_complaint, applicable) if complaint is not None] == []


def test_the_list_of_exceptions_is_needed() -> None:
    """Every test that is left out would fail here, every entry leaves something out, and most are not left out."""
    tests = spec_tests()
    left_out = [test for test in tests if _reason(test) is not None]
    assert [test.id for test in left_out if _complaint(test) is None] == []
    assert [pattern for pattern in NOT_HERE if not any(_is_meant(pattern, test) for test in left_out)] == []
    listed = [test for test in left_out if _reason(test) is not MESSAGES]
    assert (len(tests), len(left_out), len(listed)) == (1437, 167, 58)


def test_all_files_are_read() -> None:
    assert {test.id.partition("/")[0] for test in spec_tests()} == FILES and len(FILES) == 14
    assert {path.stem for path in FOLDER.glob("*.textproto")} == FILES
