"""Writes YAML in block style that readers of YAML 1.1 and 1.2 understand alike: whatever either could take for
something other than a string is quoted. Keys keep their order, texts of several lines become literal blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final

from dray.errors import InvalidError

# Plain only where no reader can disagree: starts like a word, holds nothing that could end a scalar.
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@%+=-]*(?:[ :][A-Za-z0-9_./@%+=-]+)*")
_AMBIGUOUS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"])
_SPECIAL: Final = r"\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"
_BLOCK: Final = re.compile(rf"[^\s\x00-\x1f{_SPECIAL}][^\x00-\x09\x0b-\x1f{_SPECIAL}]*")
_ESCAPE: Final = re.compile(f"[{_SPECIAL}]")
_LONG_KEY: Final = 1000


def dump(value: Any) -> str:
    """One document, without a leading `---`. Takes what JSON can hold; anything else is an InvalidError."""
    try:
        text = "\n".join(_block(value, "")) + "\n"
        text.encode()
    except RecursionError:
        raise InvalidError("cannot write YAML: nested too deeply") from None
    except UnicodeEncodeError as error:
        raise InvalidError(f"cannot write YAML: {error.object[error.start]!r} is half a character") from None
    return text


def dump_all(values: Iterable[Any]) -> str:
    """Several documents, separated by `---`."""
    return "---\n".join(dump(value) for value in values)


def _block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            text = _key(key)
            if len(text) > _LONG_KEY:  # readers take a longer one only behind a question mark
                yield f"{indent}? {text}"
                text = ""
            yield from _entry(f"{indent}{text}:", item, indent)
    elif isinstance(value, (list, tuple)) and value:
        for item in value:
            yield from _item(item, indent)
    else:
        yield from _scalar_lines(indent, value, indent)


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    """A key with its value. Lists stay at the key's own indentation, as `kubectl` writes them."""
    if isinstance(item, dict) and item:
        yield head
        yield from _block(item, indent + "  ")
    elif isinstance(item, (list, tuple)) and item:
        yield head
        yield from _block(item, indent)
    else:
        yield from _scalar_lines(head + " ", item, indent)


def _item(item: Any, indent: str) -> Iterator[str]:
    """A list entry; its first line shares the line of the dash."""
    inner = indent + "  "
    if isinstance(item, (dict, list, tuple)) and item:
        lines = _block(item, inner)
        yield f"{indent}- {next(lines)[len(inner) :]}"
        yield from lines
    else:
        yield from _scalar_lines(f"{indent}- ", item, indent)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidError(f"cannot write YAML: the key {key!r} is not a string")
    return _string(key)


def _scalar_lines(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value.rstrip("\n") and _BLOCK.fullmatch(value):
        body = value.rstrip("\n")
        ends = len(value) - len(body)
        yield head + ("|-" if ends == 0 else "|" if ends == 1 else "|+")
        for line in body.split("\n"):
            yield f"{indent}  {line}" if line else ""
        yield from [""] * (ends - 1)
    else:
        yield head + _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, (dict, list, tuple)):
        return "{}" if isinstance(value, dict) else "[]"
    raise InvalidError(f"cannot write YAML: {type(value).__name__} has no JSON form")


def _float(value: float) -> str:
    if not isfinite(value):
        raise InvalidError(f"cannot write YAML: {value} has no JSON form")
    text = float.__repr__(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0{exponent}{power}" if exponent and "." not in mantissa else text


def _string(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _AMBIGUOUS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
