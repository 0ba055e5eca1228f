"""Log lines: one line each, `key=value` for people, JSON for machines. Built on the standard logging module."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

LogFormat = Literal["text", "json"]

LEVELS: Final = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
"""From few lines to many."""

_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
# What JSON leaves as it is but a terminal, a line reader or UTF-8 would stumble over.
_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Log:
    """A named logger whose facts are keyword arguments: `log.info("registered", resource=name)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, **fields: object) -> None:
        """For whoever looks for a fault in Dray itself."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """A change of state an operator wants to see once."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Something failed and is being dealt with."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Something failed and needs somebody."""
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, **fields: object) -> None:
        """`error` with the traceback of the exception being handled, still on one line."""
        self._write(logging.ERROR, message, fields, exc_info=True)

    def _write(self, level: int, message: str, fields: Mapping[str, object], exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, extra={"fields": fields}, exc_info=exc_info)


def get_log(name: str) -> Log:
    """The log of one module; `name` is shown without the leading `dray.`."""
    return Log(f"dray.{name}")


def setup_logs(log_format: LogFormat = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Send all log records of the process, those of libraries included, to `stream` (stderr). Called once, at start."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    _flag.level = root.level


class _Flag:
    """What the process was started with."""

    level = logging.INFO


_flag = _Flag()


def say_more(why: str) -> None:
    """One step more to be logged, from now on; at the last step nothing changes. `why` is written with it."""
    more = [level for level in LEVELS if level < logging.getLogger().level]
    _change_level(more[0] if more else logging.DEBUG, why)


def say_as_started(why: str) -> None:
    """The level of the flag again."""
    _change_level(_flag.level, why)


def _change_level(level: int, why: str) -> None:
    root, logger = logging.getLogger(), logging.getLogger("dray.runtime.logs")
    fields = {"log_level": logging.getLevelName(level).lower(), "why": why}
    fields["was"] = logging.getLevelName(root.level).lower()
    root.setLevel(level)
    # Handled without a look at the level: whoever asked sees the answer, also where only errors are logged.
    extra = {"fields": fields}
    logger.handle(
        logger.makeRecord(logger.name, logging.INFO, __file__, 0, "log level", (), None, extra=extra)
    )


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """What every line starts with, then the record's own fields, then a traceback."""
    facts: dict[str, Any] = {
        "ts": datetime.fromtimestamp(record.created, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "part": record.name.removeprefix("dray."),
        "msg": record.getMessage(),
    }
    for key, value in getattr(record, "fields", {}).items():
        facts[f"{key}_" if key in facts else key] = value
    if record.exc_info and record.exc_info[1] is not None:
        facts["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
    return facts


class TextFormatter(logging.Formatter):
    """`ts=… level=info part=client msg="watch ended" resource=pods`; a value with blanks or control characters is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """One record, one line, whatever the values hold."""
        return " ".join(f"{key}={_quoted(value)}" for key, value in _facts(record).items())


class JsonFormatter(logging.Formatter):
    """One JSON object a line; values that JSON does not know are written as text."""

    def format(self, record: logging.LogRecord) -> str:
        """One record, one line."""
        return _json(_facts(record))


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if _PLAIN.fullmatch(text) else _json(text)


def _json(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
