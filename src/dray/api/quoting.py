"""Go's way to show a string in an error: within quotes, with what cannot be printed escaped."""

from __future__ import annotations

_NAMED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str | bytes) -> str:
    """Bytes are shown as the text they are in UTF-8, those that are not by their numbers."""
    held = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
    return f'"{"".join(map(_shown, held))}"'


def _shown(character: str) -> str:
    named = _NAMED.get(character)
    if named is not None:
        return named
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
