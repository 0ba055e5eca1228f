"""Random device selectors and devices: `generate_selector_case(seed)`. About nine in ten are well typed.

The same seed gives the same case for as long as this file and `grammar.py` stay as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from tests.cel.grammar import ELEMENTS, GENERIC, GENERIC_ELEMENT, LEAVES, ORDERED, SCALARS, TEMPLATES
from tests.cel.whole_selectors import WHOLE

CAPACITY = "DRAConsumableCapacity"
LISTS = "DRAListTypeAttributes"
DRIVERS = ("dra.example.com", "gpu.example.com", "d")
OTHER = "resource.kubernetes.io"
MARK = re.compile(r"([$@^])(?:([a-zA-Z]+(?:_[a-zA-Z]+)*))?")
# Attribute name to the type it usually has.
ATTRIBUTES = {
    "model": "string",
    "index": "int",
    "ecc": "bool",
    "version": "semver",
    "ints": "list_int",
    "strings": "list_string",
    "bools": "list_bool",
    f"{OTHER}/pcieRoot": "string",
    f"{OTHER}/numa": "int",
}
# Types made from text, which often is not of their form: more leaves, fewer parse errors.
PARSED = frozenset({"cidr", "format", "ip", "quantity", "semver", "url"})
CAPACITIES = ("memory", "cores", "fraction")


def _table() -> list[tuple[str, str]]:
    """All templates with the type they give, those for element types once for each."""
    rows = [
        (kind, text) for kind, texts in TEMPLATES.items() if not kind.endswith("_element") for text in texts
    ]
    for family in ("list", "map_string", "opt"):
        for text in TEMPLATES[f"{family.partition('_')[0]}_element"]:
            rows += [(f"{family}_{element}", _specific(text, element)) for element in ELEMENTS]
    return rows


def _specific(text: str, element: str) -> str:
    return re.sub(r"T\b", element, text)


TABLE = _table()


class Selector:
    """One random expression. `wrong` is the chance that a part has another type than the place asks for."""

    def __init__(self, dice: random.Random, driver: str, features: list[str], wrong: float) -> None:
        self._dice = dice
        self._driver = driver
        self._features = features
        self._wrong = wrong
        self._scope: list[tuple[str, str]] = []
        self._names = 0
        self._parts = 0

    def part(self, kind: str, depth: int) -> str:
        """A part of this type; calls, comparisons and the like are in brackets where they need them."""
        self._parts += 1
        if self._dice.random() < self._wrong:
            kind = self._dice.choice((*SCALARS, "list_int", "map_string_int", "opt_int", "url", "null"))
        if kind in ("small", "key", "pattern", "text") and self._dice.random() < 0.85:
            return self._dice.choice(LEAVES[kind])
        kind = {"small": "int", "key": "string", "pattern": "string", "text": "string"}.get(kind, kind)
        if depth <= 0 or self._parts > 40 or self._dice.random() < (0.6 if kind in PARSED else 0.15):
            return self._leaf(kind)
        return self._grown(kind, depth)

    def focused(self, depth: int) -> str:
        """A comparison around one template, each as likely as any other: so that rare functions occur."""
        kind, text = self._dice.choice(TABLE)
        made = self._filled(text, depth)
        family = kind.partition("_")[0]
        if kind == "bool":
            return made
        if family in ("list", "map") and self._dice.random() < 0.5:
            return f"size({made}) > {self.part('small', 0)}"
        if family == "opt" and self._dice.random() < 0.5:
            return f"({made}).hasValue()"
        if kind in ("url", "format"):
            return f"[{made}].size() == 1"
        operator = self._dice.choice(("==", "!=", "<", ">=")) if kind in ORDERED else "=="
        return f"({made}) {operator} {self.part(kind, depth - 1)}"

    def _leaf(self, kind: str) -> str:
        choices: list[Callable[[], str]] = [lambda: self._dice.choice(LEAVES[kind])] if kind in LEAVES else []
        if names := [name for name, has in self._scope if has == kind]:
            choices += [lambda: self._dice.choice(names)] * 3
        known = not kind.startswith("list_") or LISTS in self._features or self._dice.random() < 0.1
        if known and (paths := [name for name, has in ATTRIBUTES.items() if has == kind]):
            choices += [lambda: self._attribute(self._dice.choice(paths), kind)] * 2
        if kind == "quantity":
            choices += [self._capacity] * 2
        if kind == "string":
            choices.append(lambda: "device.driver")
        if kind == "bool" and (CAPACITY in self._features or self._dice.random() < 0.02):
            choices.append(lambda: "device.allowMultipleAllocations")
        return self._dice.choice(choices)() if choices else "null"

    def _attribute(self, name: str, kind: str) -> str:
        domain, _, bare = name.rpartition("/")
        path = f'device.attributes["{domain or self._driver}"]'
        style = self._dice.random()
        if style < 0.5 or kind not in LEAVES:
            return f"{path}.{bare}"
        if style < 0.6:
            return f'{path}["{bare}"]'
        if style < 0.9:
            return f"{path}.?{bare}.orValue({self._dice.choice(LEAVES[kind])})"
        return f"(has({path}.{bare}) ? {path}.{bare} : {self._dice.choice(LEAVES[kind])})"

    def _capacity(self) -> str:
        path, name = f'device.capacity["{self._driver}"]', self._dice.choice(CAPACITIES)
        if self._dice.random() < 0.6:
            return f"{path}.{name}"
        return f'{path}.?{name}.orValue(quantity("0"))'

    def _grown(self, kind: str, depth: int) -> str:
        templates = list(TEMPLATES.get(kind, ()))
        family, _, element = kind.rpartition("_")
        if family in ("list", "map_string", "opt") and element in ELEMENTS:
            generic = {"list": "list_element", "map_string": "map_element", "opt": "opt_element"}[family]
            templates += [_specific(text, element) for text in TEMPLATES[generic]]
        if kind in ELEMENTS and self._dice.random() < 0.2:
            templates = [_specific(text, kind) for text in GENERIC_ELEMENT]
        if self._dice.random() < 0.06 or not templates:
            templates = [text.replace("$T", f"${kind}") for text in GENERIC]
        if kind == "bool" and self._dice.random() < 0.12:
            return self._special(depth)
        text = self._dice.choice(templates)
        made = self._filled(text, depth)
        return f"({made})" if " " in text or "?" in text or text.startswith("-") else made

    def _special(self, depth: int) -> str:
        """What only the `device` environment has."""
        domain = f'device.attributes["{self._driver}"]'
        listed = LISTS in self._features
        name = self._dice.choice(
            [n for n in ATTRIBUTES if "/" not in n and (listed or "list_" not in ATTRIBUTES[n])]
        )
        choices = [
            f"has({domain}.{name})",
            f'"{self._driver}" in device.attributes',
            f'"{name}" in {domain}',
            f"{domain}.exists(a, a == {self.part('string', depth - 1)})",
            f"{domain}[?{self.part('string', depth - 1)}].hasValue()",
            f"cel.bind(dra, {domain}, has(dra.{name}) && dra.{name} == {self.part(ATTRIBUTES[name], depth - 1)})",
            f'has(device.capacity["{self._driver}"].memory)',
            f"device.attributes.exists(d, d.startsWith({self.part('string', 0)}))",
            f"{domain}.{name}",
        ]
        if LISTS in self._features or self._dice.random() < 0.05:
            item = self.part(ATTRIBUTES[name].removeprefix("list_"), depth - 1)
            choices += [
                f"{domain}.{name}.includes({item})",
                f"{item} in {domain}.{name}",
                f"{domain}.{name}.size() > 1",
            ]
        return self._dice.choice(choices)

    def _filled(self, template: str, depth: int) -> str:
        kinds = {"T": self._dice.choice(ELEMENTS), "U": self._dice.choice(ELEMENTS)}
        kinds |= {"O": self._dice.choice(ORDERED), "S": self._dice.choice(SCALARS)}
        if "list_O" in template or "unwrap" in template:
            kinds["O"] = self._dice.choice(ELEMENTS)
        waiting: list[tuple[str, str]] = []
        made: list[str] = []
        before, at = len(self._scope), 0
        for mark in MARK.finditer(template):
            made.append(template[at : mark.start()])
            at = mark.end()
            sign, kind = mark.groups()
            if sign == "^":
                at = mark.start() + 1
                self._scope += waiting
                made.append(kind or "")
                at += len(kind or "")
                continue
            kind = "_".join(kinds.get(word, word) for word in kind.split("_"))
            if sign == "@":
                waiting.append((self._name(), kind))
                made.append(waiting[-1][0])
            else:
                made.append(self.part(kind, depth - 1))
        made.append(template[at:])
        del self._scope[before:]
        return "".join(made)

    def _name(self) -> str:
        """Mostly a new name, sometimes one that hides another."""
        self._names += 1
        return self._dice.choice(("x", "y")) if self._dice.random() < 0.1 else f"v{self._names}"


def generate_selector_case(seed: int) -> dict[str, Any]:
    dice = random.Random(f"selector {seed}")
    features = [feature for feature in (CAPACITY, LISTS) if dice.random() < 0.5]
    driver = dice.choice(DRIVERS)
    style = dice.random()
    if style < 0.04:
        expression = dice.choice(WHOLE)
    else:
        wrong = 0.15 if style < 0.08 else 0.0
        selector, depth = Selector(dice, driver, features, wrong), dice.choice((1, 2, 2, 3, 3, 4, 5))
        expression = selector.focused(depth) if style < 0.55 else selector.part("bool", depth)
        if style > 0.985:
            expression = _damaged(dice, expression)
        elif style > 0.97:
            expression = Selector(dice, driver, features, 0.0).part(dice.choice(sorted(LEAVES)), 2)
    return {
        "name": f"selector-{seed}",
        "expression": expression,
        "features": features,
        "device": _device(dice, driver, features),
    }


def _damaged(dice: random.Random, text: str) -> str:
    """A character lost, doubled or replaced."""
    at = dice.randrange(len(text))
    return (
        text[:at]
        + dice.choice(("", text[at] * 2, dice.choice("\"'()[]{}.,?:!&|=+-*/%$#@\\ ax0")))
        + text[at + 1 :]
    )


def _device(dice: random.Random, driver: str, features: list[str]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for name, kind in ATTRIBUTES.items():
        if kind.startswith("list_") and LISTS not in features and dice.random() < 0.99:
            continue
        if dice.random() < 0.85:
            others = [other for other in ATTRIBUTES.values() if LISTS in features or "list_" not in other]
            attributes[name] = _value(dice, kind if dice.random() < 0.95 else dice.choice(others))
    if dice.random() < 0.01:
        attributes["bad"] = dice.choice(({}, {"version": "1.x"}, {"version": "v1.0.0"}))
    capacity = {
        name: {"value": dice.choice(("1", "10Gi", "500m", "0", "8192Mi", "1e3", "-1", "1.5"))}
        for name in CAPACITIES
        if dice.random() < 0.8
    }
    if dice.random() < 0.2:
        capacity["other.example.com/lanes"] = {"value": "16"}
    device: dict[str, Any] = {"driver": driver, "attributes": attributes, "capacity": capacity}
    if dice.random() < 0.5:
        device["allowMultipleAllocations"] = dice.random() < 0.7
    return device


def _value(dice: random.Random, kind: str) -> dict[str, Any]:
    values: dict[str, Callable[[], Any]] = {
        "string": lambda: dice.choice(("A100", "a", "b", "", "1.2.3", "10.0.0.1", "pci-0")),
        "int": lambda: dice.choice((0, 1, 2, 3, 42, -1, 9223372036854775807)),
        "bool": lambda: dice.random() < 0.5,
        "semver": lambda: dice.choice(("1.2.3", "1.0.0-alpha.1", "2.0.0+build", "0.0.1")),
    }
    members = {"string": "string", "int": "int", "bool": "bool", "semver": "version"}
    if kind.startswith("list_"):
        element = kind.removeprefix("list_")
        if element == "string" and dice.random() < 0.1:
            element = "semver"
        return {f"{members[element]}s": [values[element]() for _ in range(dice.randint(1, 3))]}
    return {members[kind]: values[kind]()}
