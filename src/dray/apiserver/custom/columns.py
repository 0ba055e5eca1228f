"""The columns that a definition asks for: the part of JSON path that definitions use. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)"""
    r"""|\[['"](?P<quoted>[^'"]+)['"]\]"""
    r"""|\[(?P<position>-?[0-9]{1,9})\]"""
    r"""|\[(?P<all>\*)\]"""
    r"""|\[\?\(@(?P<field>(?:\.[\w-]+)+)\s*==\s*['"](?P<value>[^'"]*)['"]\)\]"""
)


def found_at(path: str, document: Any) -> Any:
    """The first value at a path; None where there is none, or where the path is not understood."""
    values, position = [document], 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        values = [below for value in values for below in _below(value, step)]
        position = step.end()
    return values[0] if values else None


def _below(value: Any, step: re.Match[str]) -> list[Any]:
    name = step["quoted"] or step["name"]
    if name is not None:
        name = name.replace("\\", "")
        return [value[name]] if isinstance(value, Mapping) and name in value else []
    if not isinstance(value, list):
        return []
    if step["all"]:
        return value
    if step["position"] is not None:
        position = int(step["position"])
        return [value[position]] if -len(value) <= position < len(value) else []
    return [one for one in value if str(found_at(step["field"], one)) == step["value"]]
