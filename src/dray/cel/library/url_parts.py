"""URLs by the rules of Go's `net/url`, which follow RFC 3986 where they do not follow what people write. In bytes, as there."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

from dray.cel.faults import EvaluationError
from dray.cel.library.addresses import parse_address
from dray.cel.quoting import quote_start

_ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
_PLAIN = frozenset(_ALPHANUMERIC + b"-_.~")
PATH = _PLAIN | frozenset(b"$&+,/:;=@")
HOST = _PLAIN | frozenset(b"!$&'()*+,;=:[]<>\"")
USER = _PLAIN | frozenset(b"$&+,;=")
FRAGMENT = _PLAIN | frozenset(b"$&+,/:;=?@!()*")
QUERY = _PLAIN
"""What needs no escape in each part."""
_ENCODED_PATH = PATH | frozenset(b"!'()*[]%")
_ENCODED_FRAGMENT = FRAGMENT | frozenset(b"'[]%")
_USERINFO = re.compile(rb"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(rb"(?::[0-9]*)?")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_QUERY_LIMIT = 10_000
"""Parameters of a query; one with more has none."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts. `path` and `fragment` are unescaped, `raw_path` and `raw_fragment` are how they were written."""

    scheme: bytes = b""
    opaque: bytes = b""
    user: bytes | None = None
    host: bytes = b""
    omits_host: bool = False
    path: bytes = b""
    raw_path: bytes = b""
    has_query: bool = False
    query: bytes = b""
    fragment: bytes = b""
    raw_fragment: bytes = b""

    def escaped_path(self) -> bytes:
        """As it was written where that was proper, else escaped anew."""
        if self.path == b"*":
            return b"*"
        proper = _ENCODED_PATH.issuperset(self.raw_path)
        return self.raw_path if self.raw_path and proper else escape(self.path, PATH)

    def escaped_fragment(self) -> bytes:
        """As `escaped_path`."""
        proper = _ENCODED_FRAGMENT.issuperset(self.raw_fragment)
        return self.raw_fragment if self.raw_fragment and proper else escape(self.fragment, FRAGMENT)

    def host_and_port(self) -> tuple[bytes, bytes]:
        """Without the brackets of an IPv6 address."""
        host, colon, port = self.host.rpartition(b":")
        if not colon or not _PORT.fullmatch(colon + port):
            host, port = self.host, b""
        return (host[1:-1] if host.startswith(b"[") and host.endswith(b"]") else host), port

    def __bytes__(self) -> bytes:
        text = self.scheme + b":" if self.scheme else b""
        text += self.opaque or self._hierarchy(text)
        if self.has_query or self.query:
            text += b"?" + self.query
        return text + (b"#" + self.escaped_fragment() if self.fragment else b"")

    def _hierarchy(self, before: bytes) -> bytes:
        text = b""
        if (self.scheme or self.host or self.user is not None) and not (
            self.omits_host and not self.host and self.user is None
        ):
            text += b"//" if self.host or self.path or self.user is not None else b""
            text += self.user + b"@" if self.user is not None else b""
            text += escape(self.host, HOST)
        path = self.escaped_path()
        if path and not path.startswith(b"/") and self.host:
            text += b"/"
        if not before and not text and b":" in path.partition(b"/")[0]:
            text += b"./"
        return text + path


def parse_request(text: str) -> Url:
    """An absolute URL or path, as in a request: a fragment is not one. Raises `EvaluationError` in Go's words."""
    return _located(text, text.encode(errors="replace"), via_request=True)


def parse(text: str) -> Url:
    """Any URL."""
    head, _, fragment = text.partition("#")
    url = _located(head, head.encode(errors="replace"), via_request=False)
    raw = fragment.encode(errors="replace")
    if not raw:
        return url
    try:
        plain = unescape(raw, FRAGMENT)
    except EvaluationError as error:
        raise EvaluationError(f"parse {quote_start(text)}: {error}") from None
    return _replaced(url, fragment=plain, raw_fragment=b"" if escape(plain, FRAGMENT) == raw else raw)


def parse_query(query: bytes) -> dict[bytes, list[bytes]]:
    """Values by name; what cannot be read is left out."""
    found: dict[bytes, list[bytes]] = {}
    parts = query.split(b"&")
    if len(parts) > _QUERY_LIMIT:
        return found
    for part in parts:
        if not part or b";" in part:
            continue
        name, _, value = part.partition(b"=")
        try:
            name, value = _unescape_query(name), _unescape_query(value)
        except EvaluationError:
            continue
        found.setdefault(name, []).append(value)
    return found


def _unescape_query(text: bytes) -> bytes:
    return unescape(text.replace(b"+", b" "), QUERY)


def escape(text: bytes, plain: frozenset[int]) -> bytes:
    """With everything escaped that is not plain in that part."""
    return b"".join(bytes([code]) if code in plain else b"%%%02X" % code for code in text)


def unescape(text: bytes, part: frozenset[int], *, is_zone: bool = False) -> bytes:
    """Without escapes. In a host, only what is not ASCII may be escaped, and other bytes must be allowed there."""
    is_host = part is HOST
    at = 0
    while at < len(text):
        code = text[at]
        if code == 0x25:
            found = _ESCAPE.match(text, at)
            if found is None or (is_host and not _may_escape(int(found[1], 16), found[0], is_zone=is_zone)):
                raise EvaluationError(f"invalid URL escape {quote_start(text[at : at + 3])}")
            at += 3
            continue
        if is_host and code < 0x80 and code not in part:
            raise EvaluationError(f"invalid character {quote_start(text[at : at + 1])} in host name")
        at += 1
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text)


def _may_escape(code: int, written: bytes, *, is_zone: bool) -> bool:
    if written == b"%25":
        return True
    return code == 0x20 or code in HOST if is_zone else code >= 0x80


def _replaced(url: Url, **changes: bytes) -> Url:
    kept = {name: getattr(url, name) for name in Url.__slots__}
    return Url(**(kept | changes))


def _located(text: str, raw: bytes, *, via_request: bool) -> Url:
    try:
        return _parse(raw, via_request=via_request)
    except EvaluationError as error:
        raise EvaluationError(f"parse {quote_start(text)}: {error}") from None


def _parse(raw: bytes, *, via_request: bool) -> Url:
    if _CONTROL.search(raw):
        raise EvaluationError("net/url: invalid control character in URL")
    if not raw and via_request:
        raise EvaluationError("empty url")
    if raw == b"*":
        return Url(path=b"*")
    if raw.startswith(b":"):
        raise EvaluationError("missing protocol scheme")
    found = _SCHEME.match(raw)
    scheme, rest = (found[1].lower(), raw[found.end() :]) if found else (b"", raw)
    has_query = rest.endswith(b"?") and rest.count(b"?") == 1
    rest, _, query = rest.partition(b"?")
    if not rest.startswith(b"/"):
        if scheme:
            return Url(scheme=scheme, opaque=rest, has_query=has_query, query=query)
        if via_request:
            raise EvaluationError("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise EvaluationError("first path segment in URL cannot contain colon")
    user, host, omits_host = None, b"", False
    if rest.startswith(b"//") and (scheme or not (via_request or rest.startswith(b"///"))):
        authority, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    elif scheme and rest.startswith(b"/"):
        omits_host = True
    path = unescape(rest, PATH)
    raw_path = b"" if escape(path, PATH) == rest else rest
    return Url(scheme, b"", user, host, omits_host, path, raw_path, has_query, query)


def _authority(scheme: bytes, authority: bytes) -> tuple[bytes | None, bytes]:
    """Who (escaped anew) and where."""
    user, at, rest = authority.rpartition(b"@")
    host = _host(scheme, rest)
    if not at:
        return None, host
    if not _USERINFO.fullmatch(user):
        raise EvaluationError("net/url: invalid userinfo")
    name, colon, password = user.partition(b":")
    name = escape(unescape(name, USER), USER)
    return (name + b":" + escape(unescape(password, USER), USER) if colon else name), host


def _host(scheme: bytes, host: bytes) -> bytes:
    opening = host.rfind(b"[")
    if opening > 0:
        raise EvaluationError("invalid IP-literal")
    if opening == 0:
        return _literal_host(host)
    if b":" in host:
        # Lists of hosts with ports are common in other schemes, and let through.
        at = host.find(b":") if scheme in (b"http", b"https") else host.rfind(b":")
        _check_port(host[at:])
    return unescape(host, HOST)


def _check_port(port: bytes) -> None:
    if not _PORT.fullmatch(port):
        raise EvaluationError(f"invalid port {quote_start(port)} after host")


def _literal_host(host: bytes) -> bytes:
    """An IPv6 address in brackets, perhaps with a zone behind `%25`."""
    closing = host.rfind(b"]")
    if closing < 0:
        raise EvaluationError("missing ']' in host")
    port = host[closing + 1 :]
    _check_port(port)
    address, percent, zone = host[1:closing].partition(b"%25")
    name = unescape(address, HOST) + unescape(percent + zone, HOST, is_zone=True)
    try:
        parsed, _ = parse_address(name.decode(errors="surrogateescape"))
    except EvaluationError as error:
        raise EvaluationError(f"invalid host: {error}") from None
    if parsed.version == 4:
        raise EvaluationError("invalid IP-literal")
    return b"[" + name + b"]" + port
