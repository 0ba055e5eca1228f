"""Random expressions over a few variables, many of them wrong at run time: `random_case(seed)`."""

from __future__ import annotations

import math
import random
from typing import Any

from dray.cel import types as t
from dray.cel.types import Type
from dray.cel.values import DefaultMap, Duration, Optional, Timestamp, Uint

VARIABLES: dict[str, Type] = {
    "d": t.DYN,
    "e": t.DYN,
    "m": t.map_of(t.STRING, t.map_of(t.STRING, t.DYN)),
    "l": t.list_of(t.INT),
    "s": t.STRING,
    "i": t.INT,
    "b": t.BOOL,
    "o": t.optional_of(t.DYN),
}
_VALUES: tuple[Any, ...] = (
    *(True, False, 0, 1, -1, 3, 2**53 + 1, 2**63 - 1, Uint(1), Uint(3), 0.0, 1.0, 2.5, math.nan, math.inf),
    *(
        "",
        "a",
        "ab",
        "1",
        b"a",
        None,
        (),
        (1, 2),
        ("a", 1),
        {},
        {"a": 1},
        {"b": {"a": True}},
        Duration(5),
        Timestamp(7),
    ),
)
_LEAVES = {
    "bool": (
        "true",
        "false",
        "b",
        "d",
        "e",
        "m.x.a",
        "m['y'].b",
        "has(m.x.a)",
        "has(m.nope)",
        "has(d.a)",
        "has(d.b.a)",
        "'x' in m",
    ),
    "any": (
        "d",
        "e",
        "m.x.a",
        "m.y.b",
        "m[s].a",
        "m",
        "m.x",
        "l",
        "s",
        "i",
        "1",
        "0",
        "2.0",
        "1u",
        "'a'",
        "null",
        "d.a",
        "d[0]",
        "b'a'",
    ),
    "int": (
        "i",
        "1",
        "0",
        "-1",
        "l[0]",
        "l[i]",
        "size(l)",
        "size(s)",
        "int(d)",
        "d",
        "m.x.size()",
        "9223372036854775807",
    ),
    "string": ("s", "'a'", "''", "d", "e", "string(d)", "m.x.a"),
    "list": ("l", "[]", "[1, 2]", "d", "e", "m.x.a", "[i, 1]"),
    "optional": ("o", "m.?x", "d.?a", "m[?s].?a", "d[?0]", "optional.none()", "optional.of(d)", "d.?a.b"),
}
_FORMS = {
    "bool": (
        *("(@bool && @bool)", "(@bool || @bool)", "(!@bool)", "(@bool ? @bool : @bool)") * 2,
        *(
            "(@any == @any)",
            "(@any != @any)",
            "(@any < @any)",
            "(@int >= @int)",
            "(@string <= @string)",
            "(@any > 1)",
        ),
        *(
            "(@any == 'a')",
            "(@any == 1)",
            "(@any == 3)",
            "(@any == true)",
            "(@any == null)",
            "(@any == 1.0)",
            "(@any > 'a')",
        ),
        *(
            "(@any in @list)",
            "(@any in ['a', 'b'])",
            "(@any in [1, 2])",
            "(@string in m)",
            "(@any in d)",
            "('a' in @any)",
        ),
        *(
            "@list.all(v, @bool)",
            "@list.exists(v, v == @any)",
            "@list.exists_one(v, v == @any)",
            "m.exists(k, m[k] == @any)",
        ),
        *(
            "m.all(k, v, has(v.a) || @bool)",
            "d.exists(v, @bool)",
            "@list.all(k, v, v != @any)",
            "m.x.exists(k, v, v == @any)",
        ),
        *(
            "@string.startsWith(@string)",
            "@string.matches('^a')",
            "@string.contains(@string)",
            "@optional.hasValue()",
        ),
        *(
            "cel.bind(z, @any, z == @any)",
            "cel.bind(z, @bool, z || @bool)",
            "@optional.orValue(@bool)",
            "(type(@any) == type(@any))",
        ),
    ),
    "any": (
        "@bool",
        "@int",
        "@string",
        "@list",
        "(@bool ? @any : @any)",
        "@list[@int]",
        "d[@any]",
        "@optional.orValue(@any)",
        "{'a': @any}",
    ),
    "int": (
        "(@int + @int)",
        "(@int - @int)",
        "(@int * @int)",
        "(@int / @int)",
        "(@int % @int)",
        "(-@int)",
        "size(@list)",
        "(@bool ? @int : @int)",
    ),
    "string": ("(@string + @string)", "string(@int)", "(@bool ? @string : @string)"),
    "list": (
        "@list.map(v, @int)",
        "@list.filter(v, @bool)",
        "(@list + @list)",
        "[@any, @any]",
        "m.map(k, @any)",
        "@list.map(v, @bool, v)",
    ),
    "optional": (
        "@optional.or(@optional)",
        "d[?@int]",
        "d.?a.?b",
        "optional.of(@any)",
        "@optional.optMap(z, z == @any)",
    ),
}


def random_case(seed: int) -> tuple[str, dict[str, Any]]:
    """An expression (it may not compile), and values for its variables."""
    dice = random.Random(seed)
    return _write(dice, "bool", dice.randint(1, 4)), _bindings(dice)


def _write(dice: random.Random, kind: str, depth: int) -> str:
    if depth == 0 or dice.random() < 0.1:
        return dice.choice(_LEAVES[kind])
    parts = dice.choice(_FORMS[kind]).split("@")
    text = parts[0]
    for part in parts[1:]:
        wanted = next(name for name in _LEAVES if part.startswith(name))
        text += _write(dice, wanted, depth - 1) + part.removeprefix(wanted)
    return text


def _bindings(dice: random.Random) -> dict[str, Any]:
    def value() -> Any:
        return dice.choice(_VALUES)

    inner = {"x": {"a": value(), "b": value()}, "y": {"b": value()}, "a": {}}
    return {
        "d": dice.choice((value(), {"a": value(), "b": {"a": value()}}, [value(), value()])),
        "e": value(),
        "m": DefaultMap(inner, {}) if dice.random() < 0.5 else inner,
        "l": tuple(dice.choice((0, 1, 2, 5)) for _ in range(dice.randint(0, 3))),
        "s": dice.choice(("", "a", "x", "ab")),
        "i": dice.choice((0, 1, 2, -1, 2**63 - 1)),
        "b": dice.random() < 0.5,
        "o": dice.choice((Optional(), Optional(value()), Optional({"a": value()}))),
    }
