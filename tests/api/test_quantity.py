"""Quantities against Go's answers (a committed corpus), against exact fractions, and as values."""

from __future__ import annotations

import copy
import operator
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.quantity import ZERO, Format, Quantity
from dray.errors import InvalidError
from tests.api.oracle.compare import differences
from tests.campaign import campaign
from tests.cases import read_cases

CORPUS = Path(__file__).parent / "quantity_cases.jsonl"

UNITS = {"n": 10**-9, "u": 10**-6, "m": 10**-3, "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
         "P": 10**15, "E": 10**18, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}  # fmt: skip
EXACT = {unit: Fraction(size).limit_denominator(10**9) for unit, size in UNITS.items()}

numbers = st.from_regex(r"[+-]?[0-9]{1,22}(\.[0-9]{1,12})?", fullmatch=True)
texts = st.tuples(numbers, st.sampled_from(sorted(UNITS))).map("".join)


def amount(text: str) -> Fraction:
    """What a quantity means, by the definition: rounded away from zero to 1n, binary ones capped."""
    unit = text.lstrip("+-0123456789.")
    exact = Fraction(text.removesuffix(unit)) * EXACT[unit] * 10**9
    nano = exact.__ceil__() if exact > 0 else exact.__floor__()
    limit = (2**63 - 1) * 10**9 if unit.endswith("i") else abs(nano)
    return Fraction(max(-limit, min(nano, limit)), 10**9)


def test_agrees_with_go_on_the_corpus() -> None:
    cases = read_cases(CORPUS)
    assert len(cases) >= 3000
    assert [text for case in cases for text in differences(case)] == []


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1024Ki", "1Mi"), ("0.5", "500m"), ("1.5Gi", "1536Mi"), ("1000", "1k"), ("12e6", "12e6"), ("1e3", "1e3"),
        ("100e1", "1e3"), ("0.1n", "1n"), ("-0.1n", "-1n"), ("0Gi", "0"), ("1023Ki", "1023Ki"), ("1000Ki", "1000Ki"),
        ("512", "512"), ("0.5Ki", "512"), ("1.1Ki", "1126400m"), ("9999Ei", "9223372036854775807"),
        ("-9999Ei", "-9223372036854775807"), ("123456789", "123456789"), ("0.000001", "1u"), ("1500m", "1500m"),
        ("2000m", "2"), ("1E", "1E"), ("1000E", "1000E"), ("Ki", "0"), (".5", "500m"), ("5.", "5"),
    ],
)  # fmt: skip
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity(text) + ZERO) == canonical
    assert str(Quantity(canonical)) == canonical
    assert Quantity(canonical) == Quantity(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ei", "unable to parse numeric part of quantity"),
        ("-Pi", "unable to parse numeric part of quantity"),
        ("E-31", "unable to parse numeric part of quantity"),
        ("", "quantities must match the regular expression"),
        ("one", "quantities must match the regular expression"),
        ("1.2.3", "quantities must match the regular expression"),
        ("1 Gi", "quantities must match the regular expression"),
        ("١", "quantities must match the regular expression"),
        ("1GB", "quantities must match the regular expression"),
        ("1Gib", "quantities must match the regular expression"),
        ("1Mk", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
        ("1e2147483647", "at most 1000 digits"),
        ("1e-2147483648", "at most 1000 digits"),
        ("9" * 2000, "at most 1000 digits"),
    ],
)
def test_bad_texts_say_why(text: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        Quantity(text)


@settings(max_examples=campaign(200, 20_000))
@given(texts, texts)
def test_arithmetic_is_exact(left: str, right: str) -> None:
    a, b = Quantity(left), Quantity(right)
    x, y = amount(left), amount(right)
    assert Fraction((a + b).nano, 10**9) == x + y
    assert Fraction((a - b).nano, 10**9) == x - y
    assert ((a < b), (a <= b), (a == b), (a > b), (a >= b)) == (
        (x < y),
        (x <= y),
        (x == y),
        (x > y),
        (x >= y),
    )
    assert a.compare(b) == (x > y) - (x < y)
    assert a.value() == (x.__ceil__() if x > 0 else x.__floor__())
    assert a.milli_value() == ((x * 1000).__ceil__() if x > 0 else (x * 1000).__floor__())


@settings(max_examples=campaign(200, 20_000))
@given(texts)
def test_canonical_text_reads_back(text: str) -> None:
    quantity = Quantity(text)
    fresh = quantity + ZERO
    assert Quantity(str(quantity)) == quantity == Quantity(str(fresh))
    assert str(Quantity(str(fresh)) + ZERO) == str(fresh)


@settings(max_examples=campaign(300, 100_000))
@given(st.one_of(st.text(max_size=40), st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=40)))
def test_any_text_is_a_quantity_or_invalid(text: str) -> None:
    try:
        quantity = Quantity(text)
    except InvalidError as error:
        assert "\n" not in str(error)
    else:
        assert Quantity(str(quantity)) == quantity


def test_is_a_closed_value() -> None:
    quantity = Quantity("1Gi")
    for name in ("nano", "kind", "written", "other"):
        with pytest.raises(AttributeError):
            setattr(quantity, name, 1)
    with pytest.raises(AttributeError):
        del quantity.nano
    assert not hasattr(quantity, "__dict__")
    assert hash(quantity) == hash(Quantity("1024Mi"))
    assert len({quantity, Quantity("1024Mi"), Quantity("1073741824")}) == 1
    assert copy.copy(quantity) is copy.deepcopy(quantity) is quantity
    restored = pickle.loads(pickle.dumps(Quantity("1.500")))
    assert (str(restored), restored.form, restored) == ("1.500", Format.DECIMAL_SI, Quantity("1500m"))


def test_only_mixes_with_its_own_kind() -> None:
    one: Any = Quantity("1")
    assert one != 1
    assert one != "1"
    for operate in (operator.add, operator.sub, operator.lt, operator.ge, operator.mul):
        with pytest.raises(TypeError):
            operate(one, 1.5)


def test_other_operations() -> None:
    assert str(Quantity("1Gi") * 3) == str(3 * Quantity("1Gi")) == "3Gi"
    assert str(-Quantity("500m")) == "-500m"
    assert str(abs(Quantity("-500m"))) == "500m"
    assert [Quantity(text).sign() for text in ("-1n", "0", "1n")] == [-1, 0, 1]
    assert [bool(Quantity(text)) for text in ("0", "1n")] == [False, True]
    assert Quantity("0Ki").is_zero()
    assert str(Quantity.from_int(2048, Format.BINARY_SI)) == "2Ki"
    assert str(Quantity.from_milli(1500)) == "1500m"
    assert str(Quantity("2048").with_format(Format.BINARY_SI)) == "2Ki"
    assert repr(Quantity("1024Ki")) == "Quantity('1Mi')"
    assert sum([Quantity("1"), Quantity("2")], ZERO) == Quantity("3")
    assert max(Quantity("1Gi"), Quantity("1G")) == Quantity("1Gi")


@pytest.mark.parametrize(
    ("one", "other", "product"),
    [
        ("3", "2", "6"),
        ("1Gi", "2", "2Gi"),
        ("3", "1500m", "4500m"),
        ("2", "1Gi", "2147483648"),
        ("-2", "500m", "-1"),
        ("1n", "1n", "1n"),
        ("0", "7", "0"),
    ],
)
def test_times(one: str, other: str, product: str) -> None:
    """In the format of the first; what is too small to hold is rounded up, as amounts are."""
    assert str(Quantity(one).times(Quantity(other))) == product


def test_a_zero_takes_the_format_of_the_other() -> None:
    assert str(Quantity("0") + Quantity("2Ki")) == "2Ki"
    assert str(Quantity("2Ki") - Quantity("1024")) == "1Ki"
    assert str(Quantity("2048") - Quantity("1Ki")) == "1024"


def test_whole_numbers_as_go_sees_them() -> None:
    assert [Quantity(text).as_int64() for text in ("5", "5k", "1e3", "2Gi")] == [5, 5000, 1000, 2**31]
    assert [
        Quantity(text).as_int64() for text in ("1.0", "1000m", "1Pi", "9223372036854775808", "1.5Gi")
    ] == [None] * 5
    assert Quantity("1500m").as_approximate_float() == 1.5
    assert Quantity("1e400").as_approximate_float() == float("inf")


@pytest.mark.parametrize(
    ("value", "text"),
    [(" 1Gi ", "1Gi"), (5, "5"), (1.5, "1500m"), (1000.0, "1k"), (0, "0"), (None, "0"), (-3, "-3")],
)
def test_json_strings_and_numbers(value: object, text: str) -> None:
    assert str(Quantity.from_json(value) + ZERO) == text


@pytest.mark.parametrize("value", [True, [], {}, float("nan"), float("inf"), "1 Gi"])
def test_other_json_is_invalid(value: object) -> None:
    with pytest.raises(InvalidError):
        Quantity.from_json(value)
