"""Go's way to show a text within quotes, for texts that may be long: a tenant's selector makes them as long as it likes."""

from __future__ import annotations

from typing import Final

from dray.api import quoting

_SHOWN: Final = 4096
"""Characters of a text that an error shows: nobody pays for the rest."""
_KEPT: Final = 4096


class _Escapes(dict[int, str]):
    """How characters are written, by their codes, for `str.translate`: those that were met lately."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _KEPT:
            self.clear()
        written = self[code] = quoting.quote(chr(code))[1:-1]
        return written


_ESCAPES: Final = _Escapes()


def quote(text: str | bytes) -> str:
    """As `dray.api.quoting.quote`, in a tenth of the time or less."""
    held = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
    if held.isprintable() and '"' not in held and "\\" not in held:
        return f'"{held}"'
    return f'"{held.translate(_ESCAPES)}"'


def quote_start(text: str | bytes) -> str:
    """For an error: only the beginning of what is long."""
    return quote(text) if len(text) <= _SHOWN else f"{quote(text[:_SHOWN])}…"
