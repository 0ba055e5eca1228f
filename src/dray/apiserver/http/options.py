"""The query of a list or a watch, read once and checked. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dray.api.selectors.fields import FieldMatcher, parse_field_selector
from dray.api.selectors.label_syntax import parse_label_selector
from dray.api.selectors.labels import EVERYTHING, LabelMatcher
from dray.apiserver.served import Served
from dray.errors import InvalidError
from dray.runtime.http_server import RequestError

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("", "0", "f", "F", "false", "FALSE", "False")
_MATCHES = ("", "Exact", "NotOlderThan")
_NUMBERS = 2**63
_DIGITS = 19
_ANY_FIELDS: Final = FieldMatcher()


@dataclass(frozen=True, slots=True)
class Select:
    """Which objects of a collection."""

    labels: LabelMatcher = EVERYTHING
    fields: FieldMatcher = _ANY_FIELDS

    def __bool__(self) -> bool:
        """Whether it narrows anything down: only then a document must be looked into."""
        return bool(self.labels) or bool(self.fields)

    def takes(self, served: Served, document: Mapping[str, Any]) -> bool:
        """Whether an object is one of them."""
        found = document.get("metadata", {}).get("labels") or {}
        if not self.labels.matches(found):
            return False
        return not self.fields or self.fields.matches(served.selectable(document))


EVERY_ONE: Final = Select()


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a list goes on."""

    revision: int
    after: str

    def text(self) -> str:
        """For the client, which only hands it back."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a client asks a collection."""

    select: Select = EVERY_ONE
    limit: int = 0
    token: Token | None = None
    revision: int | None = None
    """The resourceVersion it named; None: the newest. 0: any will do."""
    is_exact: bool = False
    is_watch: bool = False
    wants_bookmarks: bool = False
    wants_initial: bool = False
    """A watch that begins with all objects and then says so (`sendInitialEvents`)."""
    timeout: float | None = None
    include: str = ""

    @property
    def pinned(self) -> dict[str, str]:
        """The fields that a selector pins to one value."""
        return {one.field: one.value for one in self.select.fields.terms if one.equals}


def list_options(query: Mapping[str, str], served: Served) -> ListOptions:
    """What cannot be read is a bad request (400), what makes no sense together is invalid (422); both name the parameter."""
    match = query.get("resourceVersionMatch", "")
    try:
        found = _read(query, served, match)
    except InvalidError as error:
        raise RequestError(400, str(error), error.field) from error
    _check(found, match, has_initial="sendInitialEvents" in query)
    return found


def _read(query: Mapping[str, str], served: Served, match: str) -> ListOptions:
    fields = parse_field_selector(query.get("fieldSelector", ""))
    served.check_fields(fields)
    token = _token(query.get("continue", ""))
    revision = _number(query, "resourceVersion")
    return ListOptions(
        select=Select(parse_label_selector(query.get("labelSelector", "")), fields),
        limit=_number(query, "limit") or 0,
        token=token,
        revision=revision,
        is_exact=match == "Exact",
        is_watch=_flag(query, "watch"),
        wants_bookmarks=_flag(query, "allowWatchBookmarks"),
        wants_initial=_flag(query, "sendInitialEvents"),
        timeout=_timeout(query),
        include=query.get("includeObject", ""),
    )


def _check(found: ListOptions, match: str, *, has_initial: bool) -> None:
    if match not in _MATCHES:
        raise _invalid("resourceVersionMatch", match, "supported values: Exact, NotOlderThan")
    if has_initial and not found.is_watch:
        raise _invalid("sendInitialEvents", "true", "is forbidden for list")
    if has_initial and match != "NotOlderThan":
        raise _invalid("resourceVersionMatch", match, "must be NotOlderThan where sendInitialEvents is given")
    if match and found.is_watch and not has_initial:
        raise _invalid(
            "resourceVersionMatch", match, "is forbidden for watch unless sendInitialEvents is given"
        )
    if match and found.token is not None:
        raise _invalid("resourceVersionMatch", match, "is forbidden when continue is given")
    if match and found.revision is None and not found.is_watch:
        raise _invalid("resourceVersionMatch", match, "is forbidden unless resourceVersion is given")
    if found.is_exact and found.revision == 0:
        raise _invalid("resourceVersionMatch", match, 'is forbidden for resourceVersion "0"')
    if found.token is not None and found.revision:
        raise _invalid("resourceVersion", str(found.revision), "is forbidden when continue is given")


def _invalid(field: str, value: str, why: str) -> InvalidError:
    return InvalidError(f'{field}: "{value}" {why}', field=field)


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "")
    if text not in (*_TRUE, *_FALSE):
        raise _invalid(name, text, "is neither true nor false")
    return text in _TRUE


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) >= _NUMBERS:
        raise _invalid(name, text[: _DIGITS + 1], "is not a whole number")
    return int(text)


def _timeout(query: Mapping[str, str]) -> float | None:
    seconds = _number(query, "timeoutSeconds")
    return float(min(seconds, 86400)) if seconds else None


def _token(text: str) -> Token | None:
    if not text:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(data, type=Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidError(
            "continue key is not valid: it was not given out by this server", field="continue"
        ) from None
