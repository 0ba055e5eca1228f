"""Kubernetes' quantities: `quantity("1Gi").isGreaterThan(quantity("500M"))`, …"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from dray.api.quantity import Format, Quantity
from dray.cel import types as t
from dray.cel.faults import EvaluationError
from dray.cel.functions import Implementation, Library, Overload
from dray.cel.library.costs import walk, walked
from dray.cel.types import Type
from dray.cel.values import Opaque, Value
from dray.errors import InvalidError

QUANTITY = t.opaque("kubernetes.Quantity")
_REMEMBERED_LENGTH = 64


@dataclass(frozen=True, slots=True)
class QuantityValue(Opaque):
    """An amount as a value of CEL."""

    quantity: Quantity
    is_refused: bool = field(default=False, compare=False)
    cel_type: ClassVar[Type] = QUANTITY

    def __str__(self) -> str:
        return str(self.quantity)


def parse_quantity(text: str) -> QuantityValue:
    """Raises `EvaluationError` with the API server's words. Recent short texts are remembered."""
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parse(text)


def _parse(text: str) -> QuantityValue:
    try:
        return QuantityValue(Quantity.parse(text))
    except InvalidError as error:
        raise EvaluationError(str(error)) from None


_remembered = lru_cache(maxsize=1024)(_parse)


def _is_quantity(text: str) -> Value:
    try:
        Quantity.parse(text)
    except InvalidError:
        return False
    return True


def _sign(value: QuantityValue) -> Value:
    return value.quantity.sign()


def _is_greater(value: QuantityValue, other: QuantityValue) -> Value:
    return value.quantity > other.quantity


def _is_less(value: QuantityValue, other: QuantityValue) -> Value:
    return value.quantity < other.quantity


def _compare(value: QuantityValue, other: QuantityValue) -> Value:
    return value.quantity.compare(other.quantity)


def _float(value: QuantityValue) -> Value:
    return value.quantity.as_approximate_float()


def _int(value: QuantityValue) -> Value:
    number = value.quantity.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _is_int(value: QuantityValue) -> Value:
    return value.quantity.as_int64() is not None


def _amount(other: QuantityValue | int) -> Quantity:
    return (
        other.quantity
        if isinstance(other, QuantityValue)
        else Quantity.from_int(other, Format.DECIMAL_EXPONENT)
    )


def _add(value: QuantityValue, other: QuantityValue | int) -> Value:
    return QuantityValue(value.quantity + _amount(other), is_refused=True)


def _subtract(value: QuantityValue, other: QuantityValue | int) -> Value:
    return QuantityValue(value.quantity - _amount(other), is_refused=True)


def _member(name: str, function: str, result: Type, call: Implementation, *arguments: Type) -> Overload:
    return Overload(name, function, (QUANTITY, *arguments), result, call, is_member=True)


LIBRARY = Library(
    name="kubernetes.quantity",
    overloads=(
        Overload(
            "string_to_quantity",
            "quantity",
            (t.STRING,),
            QUANTITY,
            parse_quantity,
            estimate=walk(),
            cost=walked(),
        ),
        Overload(
            "is_quantity_string",
            "isQuantity",
            (t.STRING,),
            t.BOOL,
            _is_quantity,
            estimate=walk(),
            cost=walked(),
        ),
        Overload("quantity_sign", "sign", (QUANTITY,), t.INT, _sign),
        _member("quantity_is_greater_than", "isGreaterThan", t.BOOL, _is_greater, QUANTITY),
        _member("quantity_is_less_than", "isLessThan", t.BOOL, _is_less, QUANTITY),
        _member("quantity_compare_to", "compareTo", t.INT, _compare, QUANTITY),
        _member("quantity_get_float", "asApproximateFloat", t.DOUBLE, _float),
        _member("quantity_get_int", "asInteger", t.INT, _int),
        _member("quantity_is_integer", "isInteger", t.BOOL, _is_int),
        _member("quantity_add", "add", QUANTITY, _add, QUANTITY),
        _member("quantity_add_int", "add", QUANTITY, _add, t.INT),
        _member("quantity_sub", "sub", QUANTITY, _subtract, QUANTITY),
        _member("quantity_sub_int", "sub", QUANTITY, _subtract, t.INT),
    ),
)
