"""Trees. What cel-go makes of some hundred expressions is in test_trees.py; here are the rules, the limits and the errors."""

from __future__ import annotations

import contextlib
import random
import sys

import pytest

from dray.cel.ast import Call, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, Struct, children, walk
from dray.cel.faults import CelError
from dray.cel.syntax.parser import RESERVED, SIZE_LIMIT, parse
from dray.cel.syntax.reading import ParseOptions
from dray.cel.values import Uint
from tests.campaign import campaign, seeded
from tests.cel.counting import calls, is_linear
from tests.cel.spec import spec_tests
from tests.cel.trees import MACROS, environment

OPTIONS = ParseOptions(macros={macro.key: macro for macro in MACROS})


def tree(text: str, options: ParseOptions = OPTIONS) -> Expr:
    return parse(text, options=options)


def shown(node: Expr) -> str:
    """A tree of operators with all brackets."""
    match node:
        case Literal():
            return str(node.value)
        case Ident():
            return node.name
        case Select():
            return f"{shown(node.operand)}.{node.field}"
        case Call():
            target = [] if node.target is None else [shown(node.target) + "."]
            return f"({' '.join([node.function, *target, *map(shown, node.arguments)])})"
        case _:
            return type(node).__name__


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c - d", "(_-_ (_+_ a (_*_ b c)) d)"),
        ("a - b - c", "(_-_ (_-_ a b) c)"),
        ("a < b == c in d", "(@in (_==_ (_<_ a b) c) d)"),
        ("a + b < c % d", "(_<_ (_+_ a b) (_%_ c d))"),
        ("a || b && c", "(_||_ a (_&&_ b c))"),
        ("a && b || c && d", "(_||_ (_&&_ a b) (_&&_ c d))"),
        ("a == b && c", "(_&&_ (_==_ a b) c)"),
        ("a ? b : c ? d : e", "(_?_:_ a b (_?_:_ c d e))"),
        ("a || b ? c && d : e", "(_?_:_ (_||_ a b) (_&&_ c d) e)"),
        ("!a.b", "(!_ a.b)"),
        ("!!a", "a"),
        ("!!!a", "(!_ a)"),
        ("-a[b]", "(-_ (_[_] a b))"),
        ("--a", "a"),
        ("-1.f()", "(f -1.)"),
        ("--1", "1"),
        ("a - -1", "(_-_ a -1)"),
        ("a.b.c(d)[e].f", "(_[_] (c a.b. d) e).f"),
        (".a.b", ".a.b"),
        (".f(a)", "(.f a)"),
        ("a.?b", "(_?._ a b)"),
        ("a[?b]", "(_[?_] a b)"),
        ("a.for.while", "a.for.while"),
        ("(a)", "a"),
        ("x.in_", "x.in_"),
    ],
)
def test_what_binds_how_tightly(text: str, expected: str) -> None:
    assert shown(tree(text)) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, "(_&&_ a0 a1)"),
        (3, "(_&&_ (_&&_ a0 a1) a2)"),
        (4, "(_&&_ (_&&_ a0 a1) (_&&_ a2 a3))"),
        (5, "(_&&_ (_&&_ (_&&_ a0 a1) a2) (_&&_ a3 a4))"),
    ],
)
def test_chains_of_and_are_balanced(count: int, expected: str) -> None:
    assert shown(tree(" && ".join(f"a{index}" for index in range(count)))) == expected


def test_a_long_chain_is_not_deep() -> None:
    assert depth(tree(" || ".join(["true"] * 5000))) == 14


def depth(root: Expr) -> int:
    levels, deepest = [(root, 1)], 0
    while levels:
        node, level = levels.pop()
        deepest = max(deepest, level)
        levels.extend((child, level + 1) for child in children(node))
    return deepest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775808", -(2**63)),
        ("- 5", -5),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("-0x10", -16),
        ("000000000000000000000000000001", 1),
        ("18446744073709551615u", Uint(2**64 - 1)),
        ("0xFu", Uint(15)),
        ("1e-400", 0.0),
        (".5e1", 5.0),
        ("-.5", -0.5),
        ("true", True),
        ("null", None),
        ("b'\\xff'", b"\xff"),
        ("'''a'''", "a"),
    ],
)
def test_literals(text: str, value: object) -> None:
    node = tree(text)
    assert isinstance(node, Literal)
    assert (node.value, type(node.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("9223372036854775808", "invalid int literal", 0),
        ("1 + -9223372036854775809", "invalid int literal", 4),
        ("1" * 5000, "invalid int literal", 0),
        ("0x" + "f" * 5000, "invalid int literal", 0),
        ("18446744073709551616u", "invalid uint literal", 0),
        ("1e400", "invalid double literal", 0),
        ("1 == '\\ud800'", "invalid unicode code point", 5),
        ("b'\\u0041'", "unable to unescape string", 0),
        ("a.`b`", "unsupported syntax: '`'", 2),
        ("for", "reserved identifier: for", 0),
        ("1 + while(1)", "reserved identifier: while", 4),
        ("", "Syntax error: mismatched input '<EOF>'", 0),
        ("1 +", "Syntax error: mismatched input '<EOF>'", 3),
        ("1 2", "Syntax error: mismatched input '2' expecting <EOF>", 2),
        ("(1", "Syntax error: mismatched input '<EOF>' expecting ')'", 2),
        ("f(1,)", "Syntax error: mismatched input ')'", 4),
        ("f(,)", "Syntax error: mismatched input ','", 2),
        ("[1,,]", "Syntax error: mismatched input ','", 3),
        ("[1 2]", "Syntax error: mismatched input '2' expecting ']', ','", 3),
        ("{1}", "Syntax error: mismatched input '}' expecting ':'", 2),
        ("a.in", "Syntax error: mismatched input 'in' expecting IDENTIFIER", 2),
        ("a.?b(1)", "Syntax error: mismatched input '('", 4),
        ("a ? b ? c : d : e", "Syntax error: mismatched input '?' expecting ':'", 6),
        ("-!a", "Syntax error: mismatched input '!'", 1),
        ("!-a", "Syntax error: mismatched input '-'", 1),
        ("(a).b{}", "Syntax error: mismatched input '{'", 5),
        ("a[]", "Syntax error: mismatched input ']'", 2),
    ],
)
def test_errors_name_what_is_wrong_and_where(text: str, message: str, position: int) -> None:
    with pytest.raises(CelError) as caught:
        tree(text)
    assert str(caught.value).startswith(message)
    assert caught.value.position == position


def test_reserved_words_may_be_fields_but_not_names() -> None:
    for word in sorted(RESERVED - {"in", "true", "false", "null"}):
        assert isinstance(tree(f"a.{word}"), Select)
        with pytest.raises(CelError, match="reserved identifier"):
            tree(f"{word} + 1")


def test_lists_and_maps() -> None:
    node = tree("[a, ?b, c,]")
    assert isinstance(node, ListLiteral)
    assert (len(node.items), node.optional) == (3, frozenset([1]))
    node = tree("{a: b, ?c: d,}")
    assert isinstance(node, MapLiteral)
    assert [entry.is_optional for entry in node.entries] == [False, True]
    assert [tree(text) for text in ("[]", "[,]", "{}", "{,}")] == [
        ListLiteral(1, 0, ()),
        ListLiteral(1, 0, ()),
        MapLiteral(1, 0, ()),
        MapLiteral(1, 0, ()),
    ]


def test_messages() -> None:
    node = tree(".a.b{c: 1, ?d: e}")
    assert isinstance(node, Struct)
    assert node.name == ".a.b"
    assert [(field.name, field.is_optional) for field in node.fields] == [("c", False), ("d", True)]


def test_syntax_that_an_environment_switches() -> None:
    plain = ParseOptions(optional_syntax=False, escaped_names=True)
    assert shown(tree("a.`b-c/d`", plain)) == "a.b-c/d"
    for text in ("a.?b", "a[?b]", "[?a]", "{?a: b}", "a{?b: c}"):
        with pytest.raises(CelError, match="unsupported syntax"):
            tree(text, plain)
    assert shown(tree("has(a.b)", plain)) == "(has a.b)"


NESTED = {
    "brackets": ("(", "1", ")", 249),
    "lists": ("[", "1", "]", 249),
    "maps": ("{1: ", "1", "}", 249),
    "calls": ("f(", "1", ")", 249),
    "member calls": ("a.f(", "1", ")", 249),
    "nots": ("!(", "a", ")", 249),
    "indexes": ("a[", "0", "]", 249),
    "conditionals": ("a ? b : ", "c", "", 249),
    "sums": ("1 + (", "1", ")", 124),
    "relations": ("1 == (", "1", ")", 124),
    "ands": ("a && (", "b", ")", 249),
    "folds": ("a.all(x, ", "x", ")", 249),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nesting_ends_where_it_ends_in_cel_go(kind: str) -> None:
    before, middle, after, limit = NESTED[kind]
    tree(before * limit + middle + after * limit)
    for count in (limit + 1, 5000):
        with pytest.raises(CelError, match="recursion"):
            tree(before * count + middle + after * count)


@pytest.mark.parametrize(
    ("link", "limit"), [(".a", 250), ("[0]", 250), (".f()", 250), (" + 1", 250), (" < 1", 250)]
)
def test_chains_end_where_they_end_in_cel_go(link: str, limit: int) -> None:
    tree("a" + link * limit)
    for count in (limit + 1, 5000):
        with pytest.raises(CelError, match="max recursion depth exceeded"):
            tree("a" + link * count)


def test_signs_have_no_limit() -> None:
    assert shown(tree("!" * 50_001 + "a")) == "(!_ a)"


def test_a_full_stack_of_the_caller_is_an_error_of_the_expression() -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            tree("[" * 240 + "]" * 240)

    with pytest.raises(CelError, match="nested too deeply"):
        deep(sys.getrecursionlimit() - 250)


def test_the_size_limit() -> None:
    assert isinstance(tree("1" + " " * (SIZE_LIMIT - 1)), Literal)
    with pytest.raises(CelError, match=f"size: {SIZE_LIMIT + 1}, limit {SIZE_LIMIT}"):
        tree("1" + " " * SIZE_LIMIT)


@pytest.mark.parametrize("file", sorted({test.id.split("/")[0] for test in spec_tests()}))
def test_the_specification_s_expressions_are_understood(file: str) -> None:
    options = ParseOptions(macros=OPTIONS.macros, escaped_names=True)
    for test in spec_tests(file):
        try:
            numbers = [node.id for node in walk(tree(test.expr, options))]
        except CelError:
            assert test.fails, test.id
        else:
            assert len(numbers) == len(set(numbers)), test.id


PIECES = [
    *"()[]{}.,?:!-+*/%<>=&|\"'\\`#@ \n",
    *["&&", "||", "==", "in", "true", "null", "a", "b", "1", "2u", "1.5", "'s'", 'r"\\"', "'''", '"""', "//"],
    *[
        "has(",
        ".all(x,",
        ".map(x,",
        ".optMap(x,",
        "cel.bind(x,",
        ".sortBy(x,",
        ".transformMap(k,v,",
        "a.b",
        "[?",
        ".?",
    ],
    *["é", "\ud800", "\x00", "\u2028", "0x", "b'", "a{", "9" * 30],
]


def test_any_text_gives_a_tree_or_an_error() -> None:
    source = seeded(20)
    for _ in range(campaign(2000, 200_000)):
        text = "".join(source.choices(PIECES, k=source.randint(1, 40)))
        try:
            tree(text)
        except CelError as error:
            assert -1 <= error.position <= len(text)
            assert "\n" not in str(error)


@pytest.mark.parametrize("seed", range(8))
def test_ten_kilobytes_of_anything_end_soon(seed: int) -> None:
    """However it goes on after a start that is right: a fixed number of calls for each character."""
    source = random.Random(seed)
    text = "a" + "".join(source.choices(["+a", "&&a", "*(a", ".b", "[a]", "?a:a", "(a)"], k=2_000))
    text += "".join(source.choices(source.sample(PIECES, 6), k=10_000))

    def read() -> None:
        with contextlib.suppress(CelError):
            tree(text)

    assert calls(read) < 20 * len(text)


@pytest.mark.parametrize(
    ("head", "repeated", "tail"),
    [
        ("", "(", ""),
        ("a", "[a", ""),
        ("a", "+a", ""),
        ("", "-", "a"),
        ("a", ".map(x, x)", ""),
        ("", "a ? a : ", "a"),
    ],
)
def test_twice_the_text_is_twice_the_work(head: str, repeated: str, tail: str) -> None:
    def work(count: int) -> int:
        def read() -> None:
            with contextlib.suppress(CelError):
                tree(head + repeated * count + tail)

        return calls(read)

    assert is_linear(work, 50)


def test_copies_do_not_double_without_end() -> None:
    with pytest.raises(CelError, match="too large once its macros are expanded"):
        tree("a" + ".optMap(x, x)" * 200)


def test_a_device_selector_is_read_in_few_calls() -> None:
    text = (
        'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "A100" && true'
    )
    options = environment().parse_options
    assert calls(lambda: parse(text, options=options)) < 250
