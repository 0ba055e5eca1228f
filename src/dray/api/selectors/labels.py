"""Requirements on labels and the matchers made of them.

A requirement is checked when it is made and matched by a closure, so that matching many objects is cheap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from dray.api.field_errors import FieldError, Path, Reason
from dray.api.names import label_key, label_value
from dray.api.selectors.types import LabelSelector
from dray.errors import InvalidError

Labels = Mapping[str, str]

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)


class Operator(StrEnum):
    """How a requirement compares; the values are the signs of the string form."""

    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"


NAMED_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
"""The operators as objects spell them."""

_ONE_OF: Final = (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS)
_NONE_OF: Final = (Operator.NOT_IN, Operator.NOT_EQUALS)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One checked condition. Make it with `require`."""

    key: str
    operator: Operator
    values: tuple[str, ...]
    test: Callable[[Labels], bool] = field(compare=False, repr=False)

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """Matches labels that meet every requirement. `str()` is the string form, sorted by key."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether these labels meet all requirements."""
        return all(requirement.test(labels) for requirement in self.requirements)

    def required_value(self, key: str) -> str | None:
        """The one value the label `key` must have, if the selector pins it: for index lookups."""
        for requirement in self.requirements:
            if requirement.key == key:
                pinned = requirement.operator in _ONE_OF and len(requirement.values) == 1
                return requirement.values[0] if pinned else None
        return None

    def __bool__(self) -> bool:
        """Whether it narrows anything down."""
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING: Final = LabelMatcher()
NOTHING: Final = LabelMatcher((Requirement("", Operator.IN, (), lambda _: False),))


def require(
    key: str, operator: Operator, values: Sequence[str], path: Path
) -> Requirement | list[FieldError]:
    """A checked requirement, or all that is wrong with it, below `path`."""
    faults = []
    if bad := label_key(key):
        faults.append(_invalid(path.child("key"), key, "; ".join(bad)))
    faults += _value_faults(operator, values, path.child("values"))
    for index, value in enumerate(values):
        if bad := label_value(value):
            faults.append(_invalid(path.child("values").index(index).key(key), value, "; ".join(bad)))
    return faults or Requirement(key, operator, tuple(values), _test(key, operator, values))


def _invalid(place: Path, value: object, text: str) -> FieldError:
    shown = msgspec.json.encode(value).decode()
    return FieldError(str(place), Reason.INVALID, f"Invalid value: {shown}: {text}", value)


def _value_faults(operator: Operator, values: Sequence[str], path: Path) -> list[FieldError]:
    count = len(values)
    text = ""
    match operator:
        case Operator.IN | Operator.NOT_IN if count == 0:
            text = "for 'in', 'notin' operators, values set can't be empty"
        case Operator.EQUALS | Operator.DOUBLE_EQUALS | Operator.NOT_EQUALS if count != 1:
            text = "exact-match compatibility requires one single value"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if count:
            text = "values set must be empty for exists and does not exist"
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            text = "for 'Gt', 'Lt' operators, exactly one value is required" if count != 1 else ""
            return ([_invalid(path, values, text)] if text else []) + [
                _invalid(path.index(index), value, "for 'Gt', 'Lt' operators, the value must be an integer")
                for index, value in enumerate(values)
                if integer(value) is None
            ]
    return [_invalid(path, values, text)] if text else []


def integer(text: str) -> int | None:
    """A 64-bit integer as Go's ParseInt reads it, else None."""
    if len(text) > 32 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _test(key: str, operator: Operator, values: Sequence[str]) -> Callable[[Labels], bool]:
    chosen = frozenset(values)
    if operator in _ONE_OF:
        return lambda labels: labels.get(key) in chosen
    if operator in _NONE_OF:
        return lambda labels: labels.get(key) not in chosen
    if operator is Operator.EXISTS:
        return lambda labels: key in labels
    if operator is Operator.DOES_NOT_EXIST:
        return lambda labels: key not in labels
    return _number_test(key, operator is Operator.GREATER_THAN, values)


def _number_test(key: str, greater: bool, values: Sequence[str]) -> Callable[[Labels], bool]:
    limit = integer(values[0]) if values else None

    def test(labels: Labels) -> bool:
        number = integer(labels.get(key, ""))
        if number is None or limit is None:
            return False
        return number > limit if greater else number < limit

    return test


def matcher(requirements: Sequence[Requirement]) -> LabelMatcher:
    """A matcher over checked requirements, in the order of their keys."""
    return LabelMatcher(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def match_labels(labels: Labels) -> LabelMatcher:
    """A matcher for objects that carry all of these labels; they are not checked, as with a pod's nodeSelector."""
    return matcher(
        [
            Requirement(key, Operator.EQUALS, (value,), _test(key, Operator.EQUALS, [value]))
            for key, value in labels.items()
        ]
    )


def compile_label_selector(selector: LabelSelector | None, path: Path | None = None) -> LabelMatcher:
    """The matcher of a selector object: None matches nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    path = path or Path()
    results = [
        require(key, Operator.EQUALS, (value,), path.child("matchLabels").key(key))
        for key, value in selector.match_labels.items()
    ]
    for index, entry in enumerate(selector.match_expressions):
        place = path.child("matchExpressions").index(index)
        operator = NAMED_OPERATORS.get(entry.operator)
        if operator is None or operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
            text = "not a valid label selector operator"
            results.append([_invalid(place.child("operator"), entry.operator, text)])
        else:
            results.append(require(entry.key, operator, entry.values, place))
    made, faults = divide(results)
    raise_faults("label selector", faults)
    return matcher(made)


def divide(results: Iterable[Requirement | list[FieldError]]) -> tuple[list[Requirement], list[FieldError]]:
    """What `require` gave, the good and the bad apart."""
    made, faults = [], list[FieldError]()
    for result in results:
        made.append(result) if isinstance(result, Requirement) else faults.extend(result)
    return made, faults


def raise_faults(what: str, faults: Sequence[FieldError]) -> None:
    """Raise one InvalidError that carries all faults, if there are any."""
    if faults:
        texts = ", ".join(str(fault) for fault in faults)
        raise InvalidError(f"{what}: {texts}", field=faults[0].field, causes=tuple(faults))
