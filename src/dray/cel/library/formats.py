"""Kubernetes' named formats: `format.dns1123Label().validate("my-name")` gives what is wrong, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from dray.api import names
from dray.cel import types as t
from dray.cel.costs.actual_cost import actual_size, regex_cost
from dray.cel.costs.cost import REGEX_FACTOR, STRING_FACTOR, CallEstimate, SizedNode, Sizes
from dray.cel.faults import EvaluationError
from dray.cel.functions import Library, Overload
from dray.cel.library.url_parts import parse_request
from dray.cel.types import Type
from dray.cel.values import NONE, Opaque, Optional, Value

FORMAT = t.opaque("kubernetes.NamedFormat")
_LONGEST_PATTERN = 128
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
Check = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class FormatValue(Opaque):
    """A format: equal by name. `pattern_size` stands for the work of a check."""

    name: str
    check: Check
    pattern_size: int
    cel_type: ClassVar[Type] = FORMAT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _as_prefix(check: Check) -> Check:
    return lambda text: names.as_prefix(check, text)


def _uri(text: str) -> list[str]:
    try:
        parse_request(text)
    except EvaluationError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        date(year or 2000, month, day)  # The year 0 is a leap year, and unknown to Python.
    except ValueError:
        return False
    return True


def _is_base64(text: str) -> bool:
    """Groups of four, the last one filled up. Python keeps 200 bytes for each turn of a repeated group, so none is repeated."""
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def _is_datetime(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    found = _TIME.fullmatch(rest.partition("t")[0])
    return _is_date(day) and found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _test(is_valid: Callable[[str], object], message: str) -> Check:
    return lambda text: [] if is_valid(text) else [message]


FORMATS = {
    "dns1123Label": FormatValue("DNS1123Label", names.dns_label, 30),
    "dns1123Subdomain": FormatValue("DNS1123Subdomain", names.dns_subdomain, 60),
    "dns1035Label": FormatValue("DNS1035Label", names.dns_1035_label, 30),
    "qualifiedName": FormatValue("QualifiedName", names.label_key, 60),
    "dns1123LabelPrefix": FormatValue("DNS1123LabelPrefix", _as_prefix(names.dns_label), 30),
    "dns1123SubdomainPrefix": FormatValue("DNS1123SubdomainPrefix", _as_prefix(names.dns_subdomain), 60),
    "dns1035LabelPrefix": FormatValue("DNS1035LabelPrefix", _as_prefix(names.dns_1035_label), 30),
    "labelValue": FormatValue("LabelValue", names.label_value, 40),
    "uri": FormatValue("URI", _uri, 1103),
    "uuid": FormatValue("uuid", _test(_UUID.fullmatch, "does not match the UUID format"), 70),
    "byte": FormatValue("byte", _test(_is_base64, "invalid base64"), 84),
    "date": FormatValue("date", _test(_is_date, "invalid date"), 71),
    "datetime": FormatValue("datetime", _test(_is_datetime, "invalid datetime"), 71),
}
"""By the name that expressions use."""


def _constant(form: FormatValue) -> Callable[[], Value]:
    return lambda: form


def _named(name: str) -> Value:
    form = FORMATS.get(name)
    return NONE if form is None else Optional(form)


def _validate(form: FormatValue, text: str) -> Value:
    faults = form.check(text)
    return Optional(tuple(faults)) if faults else NONE


def _estimate(sizes: Sizes, _: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
    """As if the longest pattern of any format were run over the text."""
    if not arguments:
        return None
    return CallEstimate(
        sizes.size(arguments[0]).scaled(STRING_FACTOR).scaled(_LONGEST_PATTERN * REGEX_FACTOR)
    )


def _cost(values: Sequence[Value], _: Value) -> int:
    return regex_cost(actual_size(values[1]), values[0].pattern_size)


LIBRARY = Library(
    name="kubernetes.format",
    overloads=(
        Overload(
            "format-validate",
            "validate",
            (FORMAT, t.STRING),
            t.optional_of(t.list_of(t.STRING)),
            _validate,
            is_member=True,
            estimate=_estimate,
            cost=_cost,
        ),
        Overload("format-named", "format.named", (t.STRING,), t.optional_of(FORMAT), _named),
        *(
            Overload(f"format.{name}", f"format.{name}", (), FORMAT, _constant(form))
            for name, form in sorted(FORMATS.items())
        ),
    ),
)
