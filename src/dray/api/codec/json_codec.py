"""JSON in and out: typed views decoded with msgspec, raw values, and errors that name the field as Kubernetes does.

A view drops the fields it does not know. So a view is for reading; to write an object back, keep its document (see
`manifest`) or send a patch.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from dray.api.field_errors import FieldError, Reason
from dray.api.quantity import Quantity, parse_quantity
from dray.errors import InvalidError

T = TypeVar("T")

_TOO_DEEP: Final = "nested too deeply"
_PLACE: Final = re.compile(r"(?s)(.*) - at `(?:(key)` in `)?\$(.*)`")
_BYTE: Final = re.compile(r" \(byte ([0-9]+)\)$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|(\[\.\.\.\])")
_MAX_PROBES: Final = 500


class _Number(float):
    """A JSON number that remembers how it was written: `1e3` is another quantity than `1000`."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def decode_hook(kind: type, value: Any) -> Any:
    """For msgspec: builds the types it does not know. A ValueError gets the field's path from msgspec."""
    if kind is Quantity:
        try:
            return parse_quantity(value) if value.__class__ is str else Quantity.from_json(value)
        except InvalidError as error:
            return _trimmed_quantity(value, str(error))
    if kind is object:
        return value
    raise TypeError(f"no decoding for {kind}")


def _trimmed_quantity(value: Any, fault: str) -> Quantity:
    """The API server allows spaces around a quantity."""
    if isinstance(value, str) and value != value.strip():
        try:
            return parse_quantity(value.strip())
        except InvalidError as error:
            fault = str(error)
    raise ValueError(fault)


def encode_hook(value: Any) -> Any:
    """For msgspec: writes the types it does not know."""
    if value.__class__ is Quantity:
        return str(value)
    if isinstance(value, _Number):
        return float(value)
    raise NotImplementedError(f"no encoding for {type(value)}")


_encoder: Final = msgspec.json.Encoder(enc_hook=encode_hook)


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_hook, float_hook=_Number)


def decode(data: bytes | str, kind: type[T]) -> T:
    """A typed view of a JSON document. InvalidError names the field (`spec.devices[0].name`) or the line and column."""
    try:
        return _decoder(kind).decode(data)  # type: ignore[arg-type,no-any-return]
    except msgspec.ValidationError:
        raw = loads(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _fail_syntax(error, data, "")
    return view(raw, kind)


def view(raw: Any, kind: type[T]) -> T:
    """A typed view of a raw value, such as a dict out of `loads` or a YAML file."""
    try:
        return _convert(raw, kind)
    except msgspec.ValidationError as error:
        problem = error
    if "`null`" in str(problem):
        return _view_without_nulls(raw, kind)
    raise _mistyped(*_explain(problem, raw, kind))


def _view_without_nulls(raw: Any, kind: type[T]) -> T:
    """Kubernetes takes null for "absent" everywhere; the types need not, since it is rare."""
    from dray.api.codec.nulls import without_nulls

    raw = without_nulls(raw, kind)
    try:
        return _convert(raw, kind)
    except msgspec.ValidationError as error:
        problem = error
    raise _mistyped(*_explain(problem, raw, kind))


def _convert(raw: Any, kind: type[T]) -> T:
    """Raises msgspec's error where a value has the wrong type; its words are for `_explain`."""
    try:
        return msgspec.convert(raw, kind, dec_hook=decode_hook)
    except RecursionError:
        raise InvalidError(_TOO_DEEP) from None
    except UnicodeEncodeError as error:
        raise InvalidError(f"{error.object!a:.100} has half a character, which is no text") from None


def loads(data: bytes | str, source: str = "") -> Any:
    """A JSON document as plain dicts and lists, nothing dropped. InvalidError names line and column.

    Of a key that is there twice the last one counts, as in the API server; `load_documents` refuses it.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _fail_syntax(error, data, source)


def encode(value: Any) -> bytes:
    """Compact JSON of a view or a raw value."""
    try:
        return _encoder.encode(value)
    except RecursionError:
        raise InvalidError(_TOO_DEEP) from None
    except UnicodeEncodeError as error:
        raise InvalidError(f"cannot write JSON: {error.object[error.start]!r} is half a character") from None


def to_raw(value: Any) -> Any:
    """A view as plain dicts, lists, strings and numbers."""
    return msgspec.json.decode(encode(value))


def position(data: bytes | str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset in a text."""
    before = data[:offset]
    newline: Any = "\n" if isinstance(before, str) else b"\n"
    return before.count(newline) + 1, len(before) - before.rfind(newline)


def _fail_syntax(error: Exception, data: bytes | str, source: str) -> NoReturn:
    if isinstance(error, RecursionError):
        raise InvalidError(f"{source + ': ' if source else ''}{_TOO_DEEP}", field=source) from None
    text, offset = str(error), len(data)
    if found := _BYTE.search(text):
        text, offset = text[: found.start()], int(found[1])
    elif isinstance(error, UnicodeError):
        text, offset = "not valid UTF-8 text", _bad_byte(data)
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    line, column = position(raw, offset)
    place = f"{source}:{line}:{column}" if source else f"line {line}, column {column}"
    raise InvalidError(f"{place}: {text}", field=place if source else "") from None


def _bad_byte(data: bytes | str) -> int:
    try:
        data.encode() if isinstance(data, str) else data.decode()
    except UnicodeError as error:
        return int(getattr(error, "start", 0))
    return 0


def _mistyped(text: str, field: str) -> InvalidError:
    message = text[:1].lower() + text[1:]
    cause = FieldError(field, Reason.TYPE_INVALID, message)
    return InvalidError(f"{field}: {message}" if field else message, field=field, causes=(cause,))


def _explain(error: msgspec.ValidationError, raw: Any, kind: Any) -> tuple[str, str]:
    """The text of msgspec's error and the place in Kubernetes' form, keys of maps filled in."""
    found = _PLACE.fullmatch(str(error))
    if found is None:
        return str(error), ""
    text, is_key, path = found.groups()
    if "[...]" in path:
        path = _with_keys(path, raw, kind, str(error))
    return f"bad key: {text}" if is_key else text, path.removeprefix(".")


def _with_keys(path: str, raw: Any, kind: Any, message: str) -> str:
    """msgspec says `[...]` for a key of a map. Find it: keep one key at a time and see which alone still fails."""
    steps: list[str | int] = []
    shown = ""
    for name, index, _ in _STEP.findall(path):
        if name or index:
            steps.append(name or int(index))
            shown += f".{name}" if name else f"[{index}]"
            continue
        key = _failing_key(raw, steps, kind, message)
        if key is None:
            return path
        steps.append(key)
        shown += f"[{key}]"
    return shown


def _failing_key(raw: Any, steps: list[str | int], kind: Any, message: str) -> str | None:
    keys = raw
    for step in steps:
        keys = keys[step]
    for key in list(keys)[:_MAX_PROBES]:
        try:
            msgspec.convert(_narrowed(raw, steps, key), kind, dec_hook=decode_hook)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return str(key)
    return None


def _narrowed(raw: Any, steps: list[str | int], key: Any) -> Any:
    """A copy of `raw` in which the map at `steps` holds `key` alone."""
    if not steps:
        return {key: raw[key]}
    copy: Any = list(raw) if isinstance(raw, list) else dict(raw)
    copy[steps[0]] = _narrowed(raw[steps[0]], steps[1:], key)
    return copy
