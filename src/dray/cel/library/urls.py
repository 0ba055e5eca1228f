"""Kubernetes' URLs: `url("https://example.com:80/").getHost()`, …"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dray.cel import types as t
from dray.cel.faults import EvaluationError
from dray.cel.functions import Implementation, Library, Overload
from dray.cel.library.costs import walk, walked
from dray.cel.library.url_parts import Url, parse, parse_query, parse_request
from dray.cel.types import Type
from dray.cel.values import Opaque, Value

URL = t.opaque("kubernetes.URL")


@dataclass(frozen=True, slots=True, eq=False)
class UrlValue(Opaque):
    """A URL; two are equal if they are written the same."""

    url: Url
    cel_type: ClassVar[Type] = URL

    @property
    def weight(self) -> int:
        """All its parts are written."""
        url = self.url
        return 20 + 2 * (len(url.path) + len(url.query) + len(url.fragment) + len(url.host) + len(url.opaque))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlValue) and bytes(self.url) == bytes(other.url)

    def __hash__(self) -> int:
        return hash(bytes(self.url))

    def __str__(self) -> str:
        return _text(bytes(self.url))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def parse_url(text: str) -> UrlValue:
    """Absolute, or a path from the root; raises `EvaluationError`."""
    try:
        parse_request(text)
        return UrlValue(parse(text))
    except EvaluationError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> Value:
    try:
        parse_request(text)
    except EvaluationError:
        return False
    return True


def _scheme(value: UrlValue) -> Value:
    return _text(value.url.scheme)


def _host(value: UrlValue) -> Value:
    return _text(value.url.host)


def _hostname(value: UrlValue) -> Value:
    return _text(value.url.host_and_port()[0])


def _port(value: UrlValue) -> Value:
    return _text(value.url.host_and_port()[1])


def _escaped_path(value: UrlValue) -> Value:
    return _text(value.url.escaped_path())


def _query(value: UrlValue) -> Value:
    found = parse_query(value.url.query)
    return {_text(name): tuple(map(_text, values)) for name, values in found.items()}


def _getter(name: str, function: str, call: Implementation, result: Type = t.STRING) -> Overload:
    return Overload(name, function, (URL,), result, call, is_member=True)


LIBRARY = Library(
    name="kubernetes.urls",
    overloads=(
        Overload(
            "string_to_url", "url", (t.STRING,), URL, parse_url, estimate=walk(keeps_size=True), cost=walked()
        ),
        _getter("url_get_scheme", "getScheme", _scheme),
        _getter("url_get_host", "getHost", _host),
        _getter("url_get_hostname", "getHostname", _hostname),
        _getter("url_get_port", "getPort", _port),
        _getter("url_get_escaped_path", "getEscapedPath", _escaped_path),
        _getter("url_get_query", "getQuery", _query, t.map_of(t.STRING, t.list_of(t.STRING))),
        Overload("is_url_string", "isURL", (t.STRING,), t.BOOL, _is_url),
    ),
)
