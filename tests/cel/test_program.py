"""Programs: both ways of evaluation, errors and how they are absorbed, what is read, and that nothing runs away."""

from __future__ import annotations

import builtins
import math
import tracemalloc
from contextlib import nullcontext
from copy import copy
from typing import Any

import pytest

from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.faults import CelError, EvaluationError
from dray.cel.program import compile_expression
from dray.cel.reads import Read
from dray.cel.values import EvaluationCancelledError, Uint
from tests.campaign import seeds
from tests.cel.evaluating import ATTRIBUTES as A
from tests.cel.evaluating import DOMAIN, LIBRARIES, LIMIT, device, evaluate, outcome, program, selector
from tests.cel.random_expressions import VARIABLES, random_case


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.no && false", False),
        ("false && x.no", False),
        ("x.no || true", True),
        ("x.no || false", "error: no such key: no"),
        ("x.no && x.nay", "error: no such key: no"),
        ("x.one && false", False),
        ("x.one && true", "error: no such overload"),
        ("true ? 1 : x.no", 1),
        ("x.no ? 1 : 2", "error: no such key: no"),
        ("x.one ? 1 : 2", "error: no such overload"),
        ("[1, 2].exists(y, y == 2 || x.no)", True),
        ("[1, 2].all(y, y == 2 && x.no)", False),
        ("[1, 2].exists(y, x.no)", "error: no such key: no"),
        ("[1, 2].exists_one(y, y == 1 || x.no)", "error: no such key: no"),
        ("[1, 0].map(y, 1 / y)", "error: division by zero"),
        ("[1, 2].map(y, y > 1, y * 10)", (20,)),
        ("['a', 'b'].transformList(i, v, v == 'b', i)", (1,)),
        ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
        ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})", "error: insert failed: key 1 already exists"),
        ("[1, 2].transformMap(i, v, v * 2)", {0: 2, 1: 4}),
        ("x.one.all(y, true)", "error: got 'int', expected iterable type"),
        ("x.all(k, v, v == 1)", True),
        ("cel.bind(y, x.no, true || y)", True),
        ("cel.bind(y, x.no, y)", "error: no such key: no"),
        ("cel.bind(y, x.one + 1, y + y)", 4),
        ("has(x.one) && !has(x.no) && !has(x.one.no)", True),
        ("x.?no.orValue(5)", 5),
        ("x.?one.orValue(1 / 0)", 1),
        ("x.?no.no.hasValue()", False),
        ("x.?one.value() == x[?'one'].value()", True),
        ("optional.none().value()", "error: optional.none() dereference"),
        ("[?x.?one, ?x.?no, dyn(3)]", (1, 3)),
        ("{?'a': x.?one, ?'b': x.?no}", {"a": 1}),
        ("{true: 1, false: 2}[x.one == 1]", 1),
        ("nope", "error: no such attribute(s): nope"),
        ("[x, x][5]", "error: index out of bounds: 5"),
        ("x['one'] == x.one && x[string('one')] == 1", True),
        ("(x.one == 1 ? x : {}).one", 1),
        ("type(x) == map && type(null) == null_type", True),
    ],
)
def test_values_and_errors(text: str, value: Any) -> None:
    if text == "nope":
        assert outcome(program(text, nope=t.INT).evaluate, {}) == value
        return
    found = evaluate(text, x={"one": 1})
    assert (tuple(found) if isinstance(found, list) else found) == value


def test_selectors_have_a_fast_way() -> None:
    compiled = selector(f'device.driver == "{DOMAIN}" && {A}.type == "gpu" && {A}.index > 2')
    matches = compiled.of_variable("device")
    assert compiled.is_fast
    assert matches(device(type="gpu", index=3)) is True
    assert matches(device(type="gpu", index=2)) is False
    assert matches(device(type="fpga")) is False
    for broken in (device(type="gpu"), device(type="gpu", index="3"), device(type="gpu", index=True)):
        with pytest.raises(EvaluationError):
            matches(broken)
    assert compiled.evaluate({"device": device(type="gpu", index=3)}) is True


def test_python_says_by_three_errors_that_code_is_nested_too_deeply() -> None:
    """Why a MemoryError where code is compiled means: there is no fast way. What is as deep is answered the slow way."""
    for text in ("not " * 10_000 + "x", "not " * 4_000 + "x", "(" * 1_000 + "x" + ")" * 1_000):
        with pytest.raises((MemoryError, RecursionError, SyntaxError)):
            compile(text, "<deep>", "exec")
    deep = "".join(f'device.driver == "{number}" ? true : ' for number in range(200)) + "false"
    compiled = selector(deep)
    assert not compiled.is_fast
    assert compiled.of_variable("device")(device(x=1)) is False


def test_the_fast_way_keeps_kinds_apart() -> None:
    assert selector(f"{A}.x == 1").of_variable("device")(device(x=True)) is False
    assert selector(f"{A}.x == true").of_variable("device")(device(x=1)) is False
    assert selector(f"{A}.x in [0, 1]").of_variable("device")(device(x=True)) is False
    assert selector(f"{A}.x == 3").of_variable("device")(device(x=3.0)) is True
    assert selector(f"{A}.x in [3, 4]").of_variable("device")(device(x=Uint(3))) is True
    assert (
        outcome(selector(f"{A}.x > 0").evaluate, {"device": device(x=math.nan)})
        == "error: NaN values cannot be ordered"
    )


def test_both_ways_agree_on_random_expressions() -> None:
    environment = Environment(VARIABLES, LIBRARIES)
    compiled = fast = values = 0
    for seed in seeds(500, 50_000):
        text, bindings = random_case(seed)
        try:
            found = compile_expression(text, environment)
        except CelError:
            continue
        compiled += 1
        fast += found.is_fast
        quick, exact = outcome(found.evaluate, bindings), outcome(found.evaluate_exactly, bindings)
        values += not isinstance(exact, str)
        assert repr(quick) == repr(exact), f"seed {seed}: {text} with {bindings}"
        assert (
            found.evaluate({**bindings, "unused": 1}) == exact
            if not isinstance(exact, str) and exact == exact
            else True
        )
    assert compiled > 200
    assert fast > compiled * 0.9
    assert values > compiled * 0.2


def test_the_fast_way_cannot_pass_the_limit() -> None:
    """What has a fast way never costs more than the limit."""
    environment = Environment({"i": t.INT, "b": t.BOOL}, LIBRARIES)
    tried = 0
    for seed in seeds(300, 20_000):
        text, bindings = random_case(seed)
        try:
            compiled = compile_expression(text.replace("m.x.a", "b").replace("d", "b"), environment, 2000)
        except CelError:
            continue
        if not compiled.is_fast:
            continue
        run = compiled.start(bindings)
        outcome(lambda _, compiled=compiled, run=run: compiled.finish(run), {})
        tried += 1
        assert run.cost <= 2000, text
    assert tried > 10


READS: list[tuple[str, set[Read]]] = [
    ("true", set()),
    ('device.driver == "x"', {Read(("device", "driver"))}),
    (
        f"{A}.a == {A}.b",
        {Read(("device", "attributes", DOMAIN, "a")), Read(("device", "attributes", DOMAIN, "b"))},
    ),
    (f"has({A}.a)", {Read(("device", "attributes", DOMAIN, "a"), True)}),
    (f"has({A}.a) && {A}.a == 1", {Read(("device", "attributes", DOMAIN, "a"))}),
    ('"d" in device.attributes', {Read(("device", "attributes", "d"), True)}),
    ("device.driver in device.attributes", {Read(("device", "attributes")), Read(("device", "driver"))}),
    (f"{A}.?a.orValue(1) == 2", {Read(("device", "attributes", DOMAIN, "a"))}),
    ('device.attributes[?"d"].?a.hasValue()', {Read(("device", "attributes", "d", "a"))}),
    (
        f"cel.bind(x, {A}, x.a == 1 && has(x.b))",
        {Read(("device", "attributes", DOMAIN, "a")), Read(("device", "attributes", DOMAIN, "b"), True)},
    ),
    (f"cel.bind(x, {A}, true)", set()),
    (f"cel.bind(x, {A}.a, cel.bind(y, x, y == 1))", {Read(("device", "attributes", DOMAIN, "a"))}),
    (f"{A} == {{}}", {Read(("device", "attributes", DOMAIN))}),
    (f"{A}.exists(k, k == 'a') && {A}.b == 1", {Read(("device", "attributes", DOMAIN))}),
    ("device.attributes[device.driver].a == 1", {Read(("device", "attributes")), Read(("device", "driver"))}),
    (
        "device.attributes.all(d, device.capacity[d].x > 1)",
        {Read(("device", "attributes")), Read(("device", "capacity"))},
    ),
    (f"{A}.a.optMap(x, x == 1).hasValue()", {Read(("device", "attributes", DOMAIN, "a"))}),
    ("[device].exists(d, d.driver == 'x')", {Read(("device",))}),
    ("[1].all(device, device == 1)", set()),
    (f"{A}.list[0] == 1", {Read(("device", "attributes", DOMAIN, "list"))}),
    (
        f"(device.allowMultipleAllocations ? {A} : device.attributes.x).y == 1",
        {
            Read(("device", "allowMultipleAllocations")),
            Read(("device", "attributes", DOMAIN)),
            Read(("device", "attributes", "x")),
        },
    ),
]


@pytest.mark.parametrize(("text", "reads"), READS)
def test_what_is_read(text: str, reads: set[Read]) -> None:
    if "A.a.optMap" in text or ".a.optMap" in text:
        text = text.replace(".a.optMap", ".?a.optMap")
    assert selector(text).reads == reads


def test_what_is_not_read_does_not_matter() -> None:
    """The promise behind `reads`, on random expressions: other values elsewhere give the same outcome."""
    environment = Environment(VARIABLES, LIBRARIES)
    checked = 0
    for seed in seeds(300, 20_000):
        text, bindings = random_case(seed)
        try:
            compiled = compile_expression(text, environment)
        except CelError:
            continue
        before = outcome(compiled.evaluate, bindings)
        used = {read.path[0] for read in compiled.reads}
        for name in sorted(set(bindings) - used):
            checked += 1
            bindings[name] = object()
        if "m" in used and Read(("m",)) not in compiled.reads:
            keys = {read.path[1] for read in compiled.reads if read.path[0] == "m"}
            bindings["m"] = copy(bindings["m"])
            for key in {"x", "y", "a"} - keys:
                checked += 1
                bindings["m"].pop(key)
        assert repr(outcome(compiled.evaluate, bindings)) == repr(before), f"seed {seed}: {text}"
    assert checked > 300


_TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
BOMBS = [
    "".join(f"{_TEN}.all({name}, " for name in "abcdef") + "true" + ")" * 6,
    "cel.bind(a0, x, "
    + "".join(f"cel.bind(a{n + 1}, a{n} + a{n}, " for n in range(40))
    + "a40.size() > 0"
    + ")" * 41,
    "cel.bind(a0, [1], "
    + "".join(f"cel.bind(a{n + 1}, a{n} + a{n}, " for n in range(40))
    + "a40.all(y, y > 0)"
    + ")" * 41,
    "cel.bind(a0, [1], "
    + "".join(f"cel.bind(a{n + 1}, [a{n}, a{n}], " for n in range(30))
    + "a30 == a30"
    + ")" * 31,
    "cel.bind(l, [1,2,3,4,5,6,7,8,9,10].map(a, x), l.all(a, l.all(b, l.all(c, l.all(d, l.all(e, a.contains(b)))))))",
]


BOMBS += [
    BOMBS[1].replace("cel.bind(a0, x", "cel.bind(a0, dyn(x)"),
    "cel.bind(a0, [1], "
    + "".join(f"cel.bind(a{n + 1}, a{n} + a{n}, " for n in range(16))
    + f"{_TEN}.all(y, {_TEN}.all(z, {_TEN}.all(v, 2 in dyn(a16) || true)))"
    + ")" * 17,
]


@pytest.mark.parametrize(
    "text", BOMBS, ids=["folds", "strings", "lists", "nested", "product", "dyn strings", "dyn lists"]
)
def test_bombs_are_cut_off(text: str) -> None:
    """Within as many steps as the limit allows, and in little memory."""
    compiled = program(text, LIMIT, x=t.STRING)
    bindings = {"x": "abcdefghij" * 10}
    with pytest.raises(EvaluationCancelledError, match="operation cancelled"):
        compiled.evaluate(bindings)
    run = compiled.start(bindings)
    tracemalloc.start()
    try:
        with pytest.raises(EvaluationCancelledError, match="operation cancelled"):
            compiled.finish(run)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert run.steps <= LIMIT and most < 64 << 20


def test_an_evaluation_can_be_interrupted() -> None:
    compiled = program(BOMBS[0], x=t.STRING)
    asked = iter([False, False, True])
    with pytest.raises(EvaluationCancelledError, match="operation interrupted"):
        compiled.evaluate_with_cost({"x": ""}, lambda: next(asked))


@pytest.mark.parametrize(
    "text", ["(" * 200 + "x" + ")" * 200, "!" * 240 + "x", "[" * 200 + "x" + "]" * 200 + " == []"]
)
def test_deep_expressions_end(text: str) -> None:
    try:
        compiled = program(text, x=t.BOOL)
    except CelError:
        return
    assert outcome(compiled.evaluate, {"x": True}) == outcome(compiled.evaluate_exactly, {"x": True})


def test_a_long_chain_is_fast() -> None:
    text = " && ".join(f'{A}.a{number} == "{number}"' for number in range(60))
    compiled = selector(text)
    assert compiled.is_fast
    assert (
        compiled.of_variable("device")(device(**{f"a{number}": str(number) for number in range(60)})) is True
    )


@pytest.mark.parametrize(("levels", "is_told"), [(2, True), (110, False)])
def test_a_lack_of_memory_is_not_taken_for_a_text_that_is_too_deep(
    levels: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python says `MemoryError` for both. Where nothing is deep, whoever limits memory must hear of it."""
    text = "(b == " * levels + "b" + ")" * levels
    environment = Environment({"b": t.BOOL}, LIBRARIES)

    def exhausted(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "compile", exhausted)
        with pytest.raises(MemoryError) if is_told else nullcontext():
            assert not compile_expression(text, environment).is_fast
    assert compile_expression(text, environment).is_fast
