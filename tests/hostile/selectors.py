"""Selectors that a tenant might write to keep a scheduler busy: drawn from a grammar that shares values within values, grows
texts and lists, nests folds, and calls every function there is, mostly with values that the checker cannot know."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from dray.allocation.selector import device_environment
from dray.cel.functions import Overload
from dray.cel.types import Type

_LITERALS: dict[str, tuple[str, ...]] = {
    "bool": ("true", "false"),
    "int": ("0", "1", "-1", "7", "1000", "9223372036854775807"),
    "uint": ("0u", "18446744073709551615u"),
    "double": ("0.5", "-1e308", "double('NaN')"),
    "string": (
        "''",
        "'a'",
        "'1.2.3'",
        "'10Gi'",
        "'http://a.b/c?d'",
        "'10.0.0.0/8'",
        "'é€😀'",
        "'%s%d%.60000e'",
    ),
    "bytes": ("b''", "b'abc'", "b'\\xff'"),
    "google.protobuf.Duration": ("duration('1h')",),
    "google.protobuf.Timestamp": ("timestamp('2020-01-01T00:00:00Z')",),
    "kubernetes.Quantity": ("quantity('1Gi')",),
    "kubernetes.Semver": ("semver('1.2.3')",),
    "net.IP": ("ip('10.0.0.1')",),
    "net.CIDR": ("cidr('10.0.0.0/8')",),
    "kubernetes.URL": ("url('https://a/b')",),
    "kubernetes.NamedFormat": ("format.dns1123Label()",),
}
_PATTERNS = (
    r"'\\pL{30}'",
    r"'(x+x+)+y'",
    r"'.*y|'",
    r"'(a?){500}a{500}'",
    r"'[^a-c]{200}$'",
    r"'\\pL{300}N'",
    "'('",
    "'[[[[[[[['",
    "'[[:alpha:[:al'",
    "'a{1000}a{1000}'",
    "'(?i)kſß'",
)
_SEEDS = (
    "['x']",
    "'xxxxxxxxxx'",
    "lists.range(1000)",
    "{'a': 1}",
    "'é😀'",
    "[1, 2]",
    "'[[[[[[[[[['",
    "'0000000000'",
    "'1.1.1.1.1.'",
    "'%25%25%25/'",
    "'%%%%%%%%%%'",
    "'()()(?:a)k'",
)
"""What is grown: also texts that are patterns, numbers, versions and the like, but for their ends."""
_NEAR_MISSES = ("'x'", "'-'", "']'", "'!'", "'.'", "'\\n'")
_HEADS = ("''", "'(?i)'", "'['", "'0x'", "'1.0.0-'", "'http://a/?'", "'%'", "'::'")
_READ = (
    "device.driver",
    "device.attributes",
    "device.attributes['d'].name",
    "device.attributes['d'].words",
    "device.capacity['d'].memory",
    "device.allowMultipleAllocations",
)
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in", "&&", "||")
_GROWERS: tuple[Callable[[str, str], str], ...] = (
    lambda one, other: f"[{one}, {other}]",
    lambda one, other: f"[{one}, {one}, {one}]",
    lambda one, other: f"{{1: {one}, 2: {other}}}",
    lambda one, other: f"{{{one}: {other}}}",
    lambda one, other: f"{one} + {one}",
    lambda one, other: f"{one} + {other}",
    lambda one, other: f"optional.of({one})",
    lambda one, other: f"{one}.map(x, {other})",
    lambda one, other: f"{one}.map(x, [x, x, {other}])",
    lambda one, other: f"{one}.transformList(i, v, [i, v])",
    lambda one, other: f"{one}.transformMap(i, v, {other})",
    lambda one, other: f"{one}.transformMapEntry(i, v, {{v: {other}}})",
    lambda one, other: f"{one}.replace('', {other})",
    lambda one, other: f"{one}.split('')",
    lambda one, other: f"{one}.join({other})",
    lambda one, other: f"'%s %s'.format([{one}, {other}])",
    lambda one, other: f"[?{one}, {other}]",
    lambda one, other: f"{{?{one}: {other}}}",
)


def overloads() -> tuple[Overload, ...]:
    """Every signature that a selector can name."""
    known = device_environment(multiple=True, lists=True, has_includes=True).overloads.values()
    return tuple(one for one in known if not any(sign in one.function for sign in "@_!?"))


class Hostile:
    """Draws one selector. `names` stand for values that it has bound so far."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._names: list[str] = []
        self._all = overloads()

    def selector(self) -> str:
        """A text that mostly compiles."""
        chance = self._chance
        bound = [self._bind(number) for number in range(chance.choice((2, 5, 12, 30)))]
        body = " || ".join(f"dyn({self._boolean(2)})" for _ in range(chance.randint(1, 3)))
        return "".join(bound) + body + ")" * len(bound)

    def _bind(self, number: int) -> str:
        chance, name = self._chance, f"a{number}"
        if number == 0:
            value = chance.choice(_SEEDS)
        elif chance.random() < 0.75:
            one = self._names[-1]
            value = chance.choice(_GROWERS)(one, chance.choice((one, self._some())))
            if chance.random() < 0.5:  # the same step many times doubles what it makes
                value = chance.choice(_GROWERS[:2] + _GROWERS[4:6])(one, one)
        else:
            value = self._value(2)
        self._names.append(name)
        return f"cel.bind({name}, dyn({value}), "

    def _some(self) -> str:
        return self._chance.choice(self._names) if self._names else "'x'"

    def _value(self, depth: int) -> str:
        chance = self._chance
        if depth <= 0 or chance.random() < 0.2:
            return chance.choice((self._some(), self._some(), chance.choice(_READ), self._literal()))
        match chance.randrange(7):
            case 0 | 1 | 2:
                return self._call(depth - 1)
            case 3:
                return self._operator(depth - 1)
            case 4:
                return self._fold(depth - 1)
            case 5:
                return chance.choice(_GROWERS)(f"dyn({self._value(depth - 1)})", self._some())
            case _:
                return f"({self._boolean(depth - 1)} ? {self._some()} : dyn({self._value(depth - 1)}))"

    def _boolean(self, depth: int) -> str:
        chance = self._chance
        choices = (
            lambda: f"dyn({self._value(depth)}) == dyn({self._value(depth)})",
            lambda: f"dyn({self._value(depth)}) in dyn({self._value(depth)})",
            lambda: f"dyn({self._some()}) == {self._some()}",
            lambda: f"dyn({self._value(depth)})",
            lambda: (
                f"{self._some()}.{chance.choice(('all', 'exists', 'exists_one'))}(x, {self._boolean(depth - 1)})"
                if depth > 0
                else "true"
            ),
            lambda: (
                f"dyn({self._some()}).matches({chance.choice((*_PATTERNS, self._some(), self._almost()))})"
            ),
            lambda: (
                f"{chance.choice(('int', 'double', 'duration', 'semver'))}({self._almost()}) == {self._some()}"
            ),
        )
        return chance.choice(choices)()

    def _call(self, depth: int) -> str:
        overload = self._chance.choice(self._all)
        arguments = [self._argument(wanted, depth) for wanted in overload.parameters]
        if not overload.is_member:
            return f"{overload.function}({', '.join(arguments)})"
        return f"{arguments[0]}.{overload.function}({', '.join(arguments[1:])})"

    def _argument(self, wanted: Type, depth: int) -> str:
        chance = self._chance
        if chance.random() < 0.45:
            return f"dyn({self._some()})"
        if chance.random() < 0.3:
            return f"dyn({self._value(depth - 1)})"
        if wanted.name == "string" and chance.random() < 0.3:
            return self._almost()
        if wanted.name == "string" and chance.random() < 0.2:
            return chance.choice(_PATTERNS)
        known = _LITERALS.get(wanted.name)
        return chance.choice(known) if known else f"dyn({self._some()})"

    def _almost(self) -> str:
        """A long text that fails at its end, perhaps behind a beginning that has it read."""
        chance = self._chance
        return f"({chance.choice(_HEADS)} + string({self._some()}) + {chance.choice(_NEAR_MISSES)})"

    def _operator(self, depth: int) -> str:
        sign = self._chance.choice(_OPERATORS)
        return f"(dyn({self._value(depth)}) {sign} dyn({self._value(depth)}))"

    def _fold(self, depth: int) -> str:
        chance, over = self._chance, chance_over(self._chance, self._some())
        macro = chance.choice(("map", "filter", "all", "exists", "exists_one", "sortBy"))
        inner = chance.choice(
            ("x", f"[x, {self._some()}]", "true", f"dyn({self._value(depth)})", f"dyn(x) == {self._some()}")
        )
        if chance.random() < 0.3:
            inner = f"{over}.{chance.choice(('all', 'exists'))}(y, dyn(y) != dyn({inner}))"
        return f"{over}.{macro}(x, {inner})"

    def _literal(self) -> str:
        return self._chance.choice(self._chance.choice(tuple(_LITERALS.values())))


def chance_over(chance: random.Random, name: str) -> str:
    """Something to walk over."""
    return chance.choice(
        (f"dyn({name})", "lists.range(300)", "lists.range(100000)", "device.attributes['d'].words")
    )


def selector_of(seed: int) -> str:
    """The selector of a seed: always the same."""
    return Hostile(seed).selector()


def described(seed: int) -> str:
    """For a failed test."""
    return f"seed {seed}: {json.dumps(selector_of(seed), ensure_ascii=False)}"
