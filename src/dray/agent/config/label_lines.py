"""Labels of a node as text: flags and files."""

from __future__ import annotations

from dray.api import names
from dray.errors import InvalidError


def parse_labels(text: str, source: str) -> dict[str, str]:
    """Labels as lines of `key=value`; values may be in double quotes. InvalidError names the line."""
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, value = parse_label(line.strip(), f"{source}:{number}")
        labels[key] = value
    return labels


def parse_label(text: str, source: str) -> tuple[str, str]:
    """One label; InvalidError where it is none."""
    key, separator, value = text.partition("=")
    value = value.removeprefix('"').removesuffix('"')
    if not separator:
        raise InvalidError(f"{source}: {text!r} must be key=value", field=source)
    faults = [*names.label_key(key), *names.label_value(value)]
    if faults:
        raise InvalidError(f"{source}: {text!r}: {faults[0]}", field=source)
    return key, value
