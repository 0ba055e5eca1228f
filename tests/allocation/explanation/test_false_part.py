"""The part of a selector that was false, and what it saw."""

from __future__ import annotations

import pytest

from dray.allocation.explanation.false_part import find_false_part
from dray.api.semver import SemVer
from tests.allocation.selecting import DRIVER, LISTS, A, C, device, prepared, selector

GPU = prepared(
    device(
        {"memory": "40Gi"}, model="A100", index=3, ecc=True, names=["a", "b"], driver=SemVer.parse("1.2.3")
    )
)


@pytest.mark.parametrize(
    ("text", "part", "saw"),
    [
        ("false", "false", {}),
        (f'{A}.model == "H100"', f'{A}.model == "H100"', {f"{A}.model": '"A100"'}),
        (f"{A}.ecc && {A}.index > 5 && false", f"{A}.index > 5", {f"{A}.index": "3"}),
        (f"({A}.ecc && (true && ({A}.index > 5)))", f"{A}.index > 5", {f"{A}.index": "3"}),
        (f"{A}.nothing == 1 && {A}.ecc == false", f"{A}.ecc == false", {f"{A}.ecc": "true"}),
        (f"{A}.ecc && ({A}.index == 1 || false)", f"{A}.index == 1 || false", {f"{A}.index": "3"}),
        (f"{A}.ecc ? {A}.index == 1 && true : true", None, {f"{A}.ecc": "true", f"{A}.index": "3"}),
        (
            f"{A}.?nothing.orValue(1) == 2 && true",
            f"{A}.?nothing.orValue(1) == 2",
            {f"{A}.nothing": "not set"},
        ),
        (f"has({A}.nothing) && {A}.nothing > 1", f"has({A}.nothing)", {f"{A}.nothing": "not set"}),
        (f"!has({A}.model) && true", f"!has({A}.model)", {f"{A}.model": "set"}),
        (
            f"cel.bind(a, {A}, a.ecc && cel.bind(i, a.index, i > 1 && i < 2))",
            "i < 2",
            {f"{A}.index": "3"},
        ),
        (
            f"{A}.names.exists(n, n == 'c') && true",
            f"{A}.names.exists(n, n == 'c')",
            {f"{A}.names": '["a", "b"]'},
        ),
        (f"{A}.driver.isLessThan(semver('1.0.0'))", None, {f"{A}.driver": "1.2.3"}),
        (f"true && {C}.memory.isGreaterThan(quantity('80Gi'))", None, {f"{C}.memory": "40Gi"}),
        ("device.driver == 'x' && true", "device.driver == 'x'", {"device.driver": f'"{DRIVER}"'}),
        ("true // && x\n && device.attributes.all(d, d == 'x')", "device.attributes.all(d, d == 'x')", {}),
        ("'a && b' == 'x && y' && true", "'a && b' == 'x && y'", {}),
        (f"cel.bind((i), {A}.index, i > 1 && i < 2)", "i < 2", {f"{A}.index": "3"}),
        (
            f"{A}.index == 1 && {A}.ecc || {A}.ecc && {A}.index == 2",
            f"{A}.index == 1 && {A}.ecc || {A}.ecc && {A}.index == 2",
            {f"{A}.index": "3", f"{A}.ecc": "true"},
        ),
    ],
)
def test_the_innermost_false_term(text: str, part: str | None, saw: dict[str, str]) -> None:
    found = find_false_part(selector(text), GPU, LISTS)
    if part is not None:
        assert found.text == part
        assert text[found.position :].startswith(part)
    assert found.saw == saw


def test_as_a_line() -> None:
    found = find_false_part(selector(f'true && {A}.model == "H100"'), GPU, LISTS)
    assert str(found) == f'{A}.model == "H100" is false: {A}.model is "A100"'
    assert str(find_false_part(selector("false"), GPU, LISTS)) == "false is false"


def test_all_terms_false_together_only() -> None:
    """`&&` over values that are no bools by themselves has no term that is false alone."""
    found = find_false_part(selector("[false, true].all(x, x) && true"), GPU, LISTS)
    assert found.text == "[false, true].all(x, x)"


def test_what_is_too_much_work_to_narrow_down_is_shown_whole() -> None:
    """Each term is compiled with the long text that is bound around it."""
    terms = " && ".join([*(f"s != '{number}'" for number in range(200)), "s == 'z'"])
    text = f"cel.bind(s, '{'x' * 5000}', {terms})"
    assert find_false_part(selector(text), GPU, LISTS).text in (text, terms)
