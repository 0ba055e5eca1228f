"""Types, overloads and faults. What cel-go says of some hundred expressions is in test_trees.py."""

from __future__ import annotations

import contextlib

import pytest

from dray.cel import types as t
from dray.cel.ast import Call, Ident, Select, walk
from dray.cel.check.checker import Checked, Constant, Variable, check
from dray.cel.environment import Environment, Options
from dray.cel.faults import CelError
from dray.cel.functions import Library, Overload
from dray.cel.syntax.parser import parse
from dray.cel.types import Type, shown
from tests.campaign import campaign, seeded
from tests.cel.counting import calls, is_linear
from tests.cel.spec import SpecTest, spec_tests
from tests.cel.trees import environment, read

LOOSE = Options(homogeneous_literals=False, validates_literals=False)


def checked(text: str, known: Environment | None = None) -> Checked:
    known = known or environment()
    return check(parse(text, options=known.parse_options), known)


def faults(text: str, known: Environment | None = None) -> list[tuple[str, int]]:
    with pytest.raises(CelError) as caught:
        checked(text, known)
    return [(fault.message, fault.position) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1", "int"),
        ("1u", "uint"),
        ("b''", "bytes"),
        ("null", "null"),
        ("1.0 + 2.0", "double"),
        ("[]", "list(dyn)"),
        ("[[], [1]]", "list(list(int))"),
        ("{}", "map(dyn, dyn)"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("[1].map(x, string(x))", "list(string)"),
        ("[].filter(x, x == 1)", "list(int)"),
        ("[1][0]", "int"),
        ("{'a': 1}.a", "int"),
        ("dyn([1])[0]", "dyn"),
        ("device", "kubernetes.DRADevice"),
        ("device.attributes['a'].b", "any"),
        ("device.attributes['a'].b == 1", "bool"),
        ("device.capacity['a'].b", "kubernetes.Quantity"),
        ("device.?driver", "optional_type(string)"),
        ("device.attributes.?a.b", "optional_type(any)"),
        ("optional.none()", "optional_type(dyn)"),
        ("optional.of([1])[0]", "optional_type(int)"),
        ("true ? [] : [1]", "list(int)"),
        ("true ? optional.none() : optional.of(1u)", "optional_type(uint)"),
        ("cel.bind(x, 1, [x])", "list(int)"),
        ("type(1)", "type(int)"),
        ("type", "type(type)"),
        ("int", "type(int)"),
        ("duration('1h')", "duration"),
        ("dyn(1) + 1", "int"),
        ("dyn(1) + dyn(2)", "dyn"),
        ("{1: 'a'}.transformMap(k, v, k)", "map(int, int)"),
        ("['a'].transformList(i, v, i)", "list(int)"),
    ],
)
def test_the_type_of_an_expression(text: str, type_: str) -> None:
    assert shown(checked(text).result_type) == type_


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 'a'", [("found no matching overload for '_+_' applied to '(int, string)'", 2)]),
        ("'a'.size(1)", [("found no matching overload for 'size' applied to 'string.(int)'", 8)]),
        ("x", [("undeclared reference to 'x' (in container '')", 0)]),
        ("f(1)", [("undeclared reference to 'f' (in container '')", 1)]),
        ("1.f()", [("undeclared reference to 'f' (in container '')", 3)]),
        ("device.nope", [("undefined field 'nope'", 6)]),
        ("1.a", [("type 'int' does not support field selection", 1)]),
        ("device.driver.a", [("type 'string' does not support field selection", 13)]),
        ("true && 1", [("expected type 'bool' but found 'int'", 8)]),
        ("1 || 'a'", [("expected type 'bool' but found 'int'", 0), ("expected type 'bool' but found 'string'", 5)]),
        ("x + y", [("undeclared reference to 'x' (in container '')", 0), ("undeclared reference to 'y' (in container '')", 4)]),
        ("1.exists(x, true)", [("expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)", 0)]),
        ("device.attributes['a'].b.exists(x, true)", [("expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)", 22)]),
        ("[1].all(x, 1)", [("expected type 'bool' but found 'int'", 11)]),
        ("[1].all(x, x == 'a')", [("found no matching overload for '_==_' applied to '(int, string)'", 13)]),
        ("[1].all(x, true) && x", [("undeclared reference to 'x' (in container '')", 20)]),
        ("[1, 'a', 2u]", [("expected type 'int' but found 'string'", 4)]),
        ("{1: 1, 'a': 2, 'b': 'c'}", [("expected type 'int' but found 'string'", 7), ("expected type 'int' but found 'string'", 15), ("expected type 'int' but found 'string'", 20)]),
        ("[dyn(1), 2]", [("expected type 'dyn' but found 'int'", 9)]),
        ("[?1]", [("expected type 'optional_type(int)' but found 'int'", 2)]),
        ("{?1: 2}", [("expected type 'optional_type(int)' but found 'int'", 5)]),
        ("nope{}", [("undeclared reference to 'nope' (in container '')", 4)]),
        ("int{}", [("'int' is not a message type", 3)]),
        ("device{}", [("'kubernetes.DRADevice' is not a type", 6)]),
        ("kubernetes.DRADevice{driver: 1}", [("expected type of field 'driver' is 'string' but provided type is 'int'", 27)]),
        ("kubernetes.DRADevice{nope: 1}", [("undefined field 'nope'", 25)]),
    ],
)  # fmt: skip
def test_faults_are_worded_and_placed_as_in_cel_go(text: str, expected: list[tuple[str, int]]) -> None:
    assert faults(text) == expected


def test_several_faults_are_one_line_and_one_error() -> None:
    with pytest.raises(CelError) as caught:
        checked("b == 1\n&& a")
    assert str(caught.value).count("undeclared reference") == 2
    assert "\n" not in str(caught.value)
    assert (caught.value.position, len(caught.value.causes)) == (0, 2)


def test_names_become_references() -> None:
    result = checked("type(device.driver) == string")
    by_id = {node.id: node for node in walk(result.expr)}
    found = {getattr(by_id[number], "name", ""): to for number, to in result.references.items()}
    assert found["device"] == Variable("device")
    assert found["string"] == Constant(t.STRING)
    assert result.references[result.expr.id] == ("equals",)


def test_dyn_leaves_several_overloads() -> None:
    result = checked("dyn(1) < device.attributes['a'].b")
    ids = result.references[result.expr.id]
    assert isinstance(ids, tuple)
    assert {"less_int64", "less_string", "less_int64_double", "less_timestamp"} <= set(ids)


def test_qualified_names_are_one_name() -> None:
    known = environment().extend({"a.b.c": t.INT})
    result = checked("a.b.c + 1", known)
    assert isinstance(result.expr, Call)
    assert isinstance(result.expr.arguments[0], Ident)
    assert result.expr.arguments[0].name == "a.b.c"
    assert isinstance(checked("has({'a': 1}.a)").expr, Select)


def test_functions_with_a_namespace_have_no_target() -> None:
    result = checked("optional.of(1)")
    assert isinstance(result.expr, Call)
    assert (result.expr.function, result.expr.target) == ("optional.of", None)


def test_a_variable_of_a_fold_hides_what_is_outside() -> None:
    assert shown(checked("[1].map(device, device + 1)").result_type) == "list(int)"
    assert shown(checked("[1].map(x, ['a'].map(x, x))").result_type) == "list(list(string))"
    assert shown(checked("[1].map(device, .device)").result_type) == "list(int)"


def test_the_container_is_looked_into_first() -> None:
    known = environment().extend(
        {"x": t.INT, "a.x": t.STRING, "a.b.y": t.BOOL}, options=Options(container="a.b")
    )
    assert [shown(checked(text, known).result_type) for text in ("x", ".x", "y", "b.y", "a.x")] == [
        "string",
        "int",
        "bool",
        "bool",
        "string",
    ]
    assert faults("z", known) == [("undeclared reference to 'z' (in container 'a.b')", 0)]


def test_options_of_the_environment() -> None:
    loose = environment().extend(options=LOOSE)
    assert shown(checked("[1, 'a']", loose).result_type) == "list(dyn)"
    assert shown(checked("{1: 2, 'a': 3u}", loose).result_type) == "map(dyn, dyn)"
    strict = environment().extend(options=Options(mixed_comparisons=False))
    assert faults("1 < 2.0", strict) == [
        ("found no matching overload for '_<_' applied to '(int, double)'", 2)
    ]
    assert shown(checked("1 < 2.0").result_type) == "bool"


def test_lists_may_be_mixed_below_functions_that_say_so() -> None:
    checked("'%s %d'.format(['a', dyn(1)])")
    checked("'%s'.format([[1, dyn('a')]])")
    assert len(faults("['a', dyn(1)]")) == 1


def _ground(type_: Type) -> bool:
    return not type_.is_parameter and all(map(_ground, type_.parameters))


def test_every_node_has_a_type_without_variables() -> None:
    for case in read("cases"):
        if "types" in case:
            result = checked(case["text"])
            assert all(map(_ground, result.types.values()))


@pytest.mark.parametrize("file", sorted({test.id.split("/")[0] for test in spec_tests()}))
def test_the_specification_s_expressions_pass(file: str) -> None:
    """As its tests expect: those that fail at run time pass here."""
    tests = [test for test in spec_tests(file) if not test.disable_check and not test.needs_messages]
    assert [f"{test.id}: {test.expr}" for test in tests if not _passes(test) and not test.fails] == []


def _passes(test: SpecTest) -> bool:
    options = Options(
        container=test.container, homogeneous_literals=False, validates_literals=False, escaped_names=True
    )
    try:
        checked(test.expr, SPECIFIED.extend(test.variables, (), options))
    except CelError:
        return False
    return True


def _later() -> Library:
    """Functions of newer versions of the libraries, which the specification's tests use and Kubernetes does not have."""

    def some(
        id_: str, function: str, parameters: tuple[Type, ...], result: Type, *, is_member: bool = True
    ) -> Overload:
        return Overload(id_, function, parameters, result, lambda *values: values, is_member)

    return Library(
        "later",
        (
            some("strings_quote", "strings.quote", (t.STRING,), t.STRING, is_member=False),
            some("string_reverse", "reverse", (t.STRING,), t.STRING),
        ),
    )


SPECIFIED = environment().extend(libraries=(_later(),))


def test_types_that_double_end() -> None:
    text = "cel.bind(x, {1: 1}, " + "cel.bind(x, {x: x}, " * 40 + "x" + ")" * 41
    with pytest.raises(CelError, match="too large"):
        checked(text)


@pytest.mark.parametrize(
    ("opening", "middle", "closing", "most"),
    [
        ("[", "", "]", 240),
        ("!(", "true", ")", 240),
        ("dyn(", "1", ")", 240),
        ("true ? 1 : ", "1", "", 240),
        ("{1: ", "1", "}", 240),
        ("[1].map(x, ", "1", ")", 240),
        ("cel.bind(x, 1, ", "x", ")", 240),
        ("[], ", "[]", "", 10_000),
        ("true && ", "true", "", 5000),
        ("[] + ", "[]", "", 240),
        ("foo && ", "true", "", 5000),
    ],
)
def test_deep_and_long_expressions_end_soon(opening: str, middle: str, closing: str, most: int) -> None:
    """Twice as deep or long is twice the work, and the largest that is read is checked too."""

    def text(count: int) -> str:
        whole = opening * count + middle + closing * count
        return f"[{whole}]" if opening == "[], " else whole

    def work(count: int) -> int:
        def run() -> None:
            with contextlib.suppress(CelError):
                checked(text(count))

        return calls(run)

    assert is_linear(work, 100)
    try:
        checked(text(most))
    except CelError as error:
        assert "nested too deeply" not in str(error)


PARTS = [
    "1",
    "'a'",
    "true",
    "[]",
    "{}",
    "[1]",
    "{'a': 1}",
    "null",
    "dyn(1)",
    "device",
    "x",
    "optional.of(1)",
    "int",
]
FORMS = [
    "{} + {}", "{} == {}", "{} && {}", "{} ? {} : {}", "[{}, {}]", "{{{}: {}}}", "{}[{}]", "{}.a", "{}.?a", "size({})",
    "{}.map(x, {})", "{}.all(x, {})", "{}.transformMap(k, v, {})", "cel.bind(x, {}, {})", "{}.optMap(x, {})",
    "{}.orValue({})", "{}.sortBy(x, {})", "[?{}]", "{}.filter(x, {})", "sets.contains({}, {})", "{} in {}", "type({})",
]  # fmt: skip


def test_any_tree_passes_or_has_faults() -> None:
    source = seeded(30)

    def text(levels: int) -> str:
        if levels == 0 or source.random() < 0.2:
            return source.choice(PARTS)
        form = source.choice(FORMS)
        return "(" + form.format(*(text(levels - 1) for _ in range(4))) + ")"

    passed = 0
    for _ in range(campaign(600, 60_000)):
        try:
            result = checked(text(3))
        except CelError as error:
            assert error.faults
        else:
            passed += 1
            assert all(map(_ground, result.types.values()))
            assert {node.id for node in walk(result.expr)} >= set(result.references)
    assert passed > 50
