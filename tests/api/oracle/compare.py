"""Compares Dray's answer with the oracle's for one case; used by the tests and by generate.py."""

from __future__ import annotations

from typing import Any

from dray.api import names
from dray.api.quantity import Format, Quantity
from dray.api.quantity_text import BIG
from dray.api.selectors import parse_field_selector, parse_label_selector
from dray.api.semver import SemVer
from dray.errors import InvalidError

Case = dict[str, Any]
_INT64 = range(-(2**63), 2**63)


def differences(case: Case) -> list[str]:
    """What Dray sees differently; empty when it agrees."""
    kind = case["kind"]
    if kind == "quantity":
        found = _quantity(case)
    elif kind == "semver":
        found = _semver(case)
    elif kind in ("labels", "fields"):
        found = _selector(case)
    else:
        faults = getattr(names, kind)(case["a"])
        found = [] if faults == case.get("faults", []) else [f"faults {faults}"]
    return [f"{kind} {case['a']!r} {case.get('b', '')!r}: {text}" for text in found]


def _quantity(case: Case) -> list[str]:
    try:
        left = Quantity(case["a"])
    except InvalidError as error:
        return [] if str(error) == case.get("error") else [f"a: {error}"]
    found = _number("x", left, case["x"]) if "x" in case else ["should not parse"]
    if str(-left) != case.get("neg") and not _loses_zeros(left):
        found.append(f"neg: {-left}")
    if "b" not in case or found:
        return found
    try:
        right = Quantity(case["b"])
    except InvalidError as error:
        return [] if f"b: {error}" == case.get("error") else [f"b: {error}"]
    if "y" not in case:
        return ["b should not parse"]
    found += _number("y", right, case["y"])
    found += _number("sum", left + right, case["sum"]) + _number("diff", left - right, case["diff"])
    if left.compare(right) != case["cmp"]:
        found.append("cmp")
    return found


def _number(name: str, ours: Quantity, go: list[Any]) -> list[str]:
    text, form, value, milli, whole, approximate, big = go
    found = []
    if str(ours) != text and not _loses_zeros(ours):
        found.append(f"{name}: {ours}")
    if Quantity(str(ours)) != ours and abs(ours.nano) < 2**63 * 10**9:
        found.append(f"{name}: {ours} reads back as another amount")
    if ours.kind.form != form:
        found.append(f"{name}: format {ours.kind.form}")
    if ours.value() != value and _is_defined(name, ours, ours.value(), 10**9, big):
        found.append(f"{name}: value {ours.value()}")
    if ours.milli_value() != milli and _is_defined(name, ours, ours.milli_value(), 10**6, big):
        found.append(f"{name}: milli {ours.milli_value()}")
    if ours.as_int64() != whole:
        found.append(f"{name}: int64 {ours.as_int64()}")
    if big == (ours.kind.scale == BIG) and not _is_close(
        name, ours.as_approximate_float(), float.fromhex(approximate)
    ):
        found.append(f"{name}: float {ours.as_approximate_float()}")
    return found


def _loses_zeros(ours: Quantity) -> bool:
    """Go prints decimal amounts that are whole multiples of 10^21 without any suffix: a wrong number."""
    return ours.kind.form != Format.DECIMAL_EXPONENT and ours.nano % 10**30 == 0


def _is_defined(name: str, ours: Quantity, result: int, step: int, big: bool) -> bool:
    """Go's Value() overflows beyond 64 bits, and with negative big decimals rounds towards zero or overflows."""
    if result not in _INT64:
        return False
    if big and ours.nano < 0:
        return name in ("x", "y") and ours.nano % step == 0 and ours.nano in _INT64
    return True


def _is_close(name: str, ours: float, go: float) -> bool:
    if name in ("x", "y") or ours == go:
        return ours == go
    return abs(ours - go) <= 1e-15 * abs(go)


def _semver(case: Case) -> list[str]:
    try:
        left = SemVer.parse(case["a"])
    except InvalidError:
        return [] if "error" in case else ["should parse"]
    if "error" in case:
        return ["should not parse"]
    found = [] if str(left) == case["text"] else [f"text {left}"]
    if "cmp" in case and left.compare(SemVer.parse(case["b"])) != case["cmp"]:
        found.append("cmp")
    return found


def _selector(case: Case) -> list[str]:
    parse = parse_label_selector if case["kind"] == "labels" else parse_field_selector
    try:
        matcher = parse(case["a"])
    except InvalidError as error:
        return [] if "error" in case else [f"should parse: {error}"]
    if "error" in case:
        return ["should not parse"]
    found = [] if str(matcher) == case.get("text", "") else [f"text {matcher}"]
    if matcher.matches(case.get("labels", {})) != case["match"]:
        found.append(f"match {not case['match']}")
    return found
