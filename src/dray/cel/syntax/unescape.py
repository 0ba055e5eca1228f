"""A quoted literal, as it stands in the text, to its value. The lexer let only well-formed escapes through."""

from __future__ import annotations

import re

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_CODED = r"[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})"
_ESCAPE = re.compile(rf"\\(?:{_CODED}|(.))", re.DOTALL)
_BYTE_ESCAPE = re.compile(_ESCAPE.pattern.encode(), re.DOTALL)


def unescape_string(token: str) -> str:
    """Raises ValueError for a number that is no character."""
    body, is_raw = _body(token)
    return body if is_raw or "\\" not in body else _ESCAPE.sub(_character, body)


def unescape_bytes(token: str) -> bytes:
    """Of the token without its `b`. Here `\\xff` is one byte, and there is no `\\u`: raises ValueError."""
    body, is_raw = _body(token)
    encoded = body.encode("utf-8", "surrogatepass")
    return encoded if is_raw or "\\" not in body else _BYTE_ESCAPE.sub(_byte, encoded)


def _body(token: str) -> tuple[str, bool]:
    """What stands between the quotes, lines ended by \\n whatever ended them; and whether backslashes mean nothing there."""
    is_raw = token[0] in "rR"
    if "\r" in token:
        token = token.replace("\r\n", "\n").replace("\r", "\n")
    quoted = token[1:] if is_raw else token
    width = 3 if len(quoted) >= 6 and quoted.startswith(('"""', "'''")) else 1
    return quoted[width:-width], is_raw


def _character(match: re.Match[str]) -> str:
    two, four, eight, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    number = int(octal, 8) if octal is not None else int(two or four or eight, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(number)


def _byte(match: re.Match[bytes]) -> bytes:
    two, four, eight, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE[simple.decode()].encode()
    if four is not None or eight is not None:
        raise ValueError("unable to unescape string")
    return bytes([int(octal, 8) if octal is not None else int(two, 16)])
