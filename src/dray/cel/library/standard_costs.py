"""Estimates of the standard functions whose cost depends on sizes, as cel-go makes them."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel.costs.cost import (
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    CallEstimate,
    EstimateCall,
    Range,
    SizedNode,
    Sizes,
)
from dray.cel.types import Type

__all__ = [
    "EstimateCall",
    "of_argument",
    "of_bytes_to_string",
    "of_equality",
    "of_items",
    "of_joined_lists",
    "of_pattern",
    "of_product",
    "of_smaller",
    "of_string_to_bytes",
    "of_sum",
]

_FORMAT_SIZE = 64
_MASK = 2**64 - 1


def _known(node: SizedNode) -> Range:
    """By the expression or the hint at the time it was looked at, else unknown."""
    return node.size if node.size is not None else Range(0, _MASK)


def of_argument(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """A walk over the first argument."""
    return CallEstimate(_known(arguments[0]).scaled(STRING_FACTOR))


def of_items(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """Every item of a list, the second argument."""
    return CallEstimate(_known(arguments[1]).scaled(1))


def of_smaller(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """A walk over the smaller of two; at least 1 if neither must be empty."""
    smaller = min(_known(arguments[0]).max, _known(arguments[1]).max)
    return CallEstimate(Range(1 if smaller else 0, smaller).scaled(STRING_FACTOR))


def of_equality(sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """As `of_smaller`, but Kubernetes' own types are compared in one step."""
    kind = arguments[0].type
    if kind != arguments[1].type or not _is_own(kind):
        return of_smaller(sizes, target, arguments)
    if kind.name == "kubernetes.NamedFormat":
        return CallEstimate(Range(1, _FORMAT_SIZE).scaled(STRING_FACTOR))
    if kind.name == "kubernetes.URL" and arguments[1].size is not None:
        return CallEstimate(Range(1, arguments[1].size.max).scaled(STRING_FACTOR))
    return CallEstimate(ONE)


def _is_own(kind: Type) -> bool:
    return kind.is_opaque and not kind.parameters


def of_sum(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """A walk over both; the result is as large as both."""
    size = _known(arguments[0]).plus(_known(arguments[1]))
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def of_joined_lists(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """One step: lists are joined without a copy."""
    return CallEstimate(ONE, _known(arguments[0]).plus(_known(arguments[1])))


def of_string_to_bytes(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """A walk; up to four bytes a character. The product wraps around, as in cel-go."""
    size = _known(arguments[0])
    return CallEstimate(size.scaled(STRING_FACTOR), Range(size.min, size.max * 4 & _MASK))


def of_bytes_to_string(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """A walk; at least a character for four bytes."""
    size = _known(arguments[0])
    return CallEstimate(size.scaled(STRING_FACTOR), Range(size.min // 4, size.max))


def of_product(_: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
    """Each part of one against each of the other."""
    if target is None:
        return None
    return CallEstimate(
        _known(target).scaled(STRING_FACTOR).times(_known(arguments[0]).scaled(STRING_FACTOR))
    )


def of_pattern(_: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
    """A pattern over the target; an empty string counts as one."""
    if target is None:
        return None
    text = _known(target).plus(ONE).scaled(STRING_FACTOR)
    return CallEstimate(text.times(_known(arguments[0]).scaled(REGEX_FACTOR)))
