"""What may come next on a command line: `dray __complete WORD…`, asked by the scripts of `dray completion`.

The last word is the one being written. Out comes a line for each candidate, `VALUE<TAB>WHAT IT IS`, or FILES where the
shell completes paths. Silent on every error: a completion must not get in the way.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.errors import Error

if TYPE_CHECKING:
    from dray.cli.complete_names import Names

FILES: Final = ":files"
_OBJECTS: Final = ("get", "describe", "delete")
_FILE_WORDS: Final = ("FILE", "SPEC", "SOCKET")

Candidates = list[tuple[str, str]]
_Commands = argparse._SubParsersAction  # noqa: SLF001  # a parser has no other way to tell its commands


@dataclass
class _Place:
    """How far the words lead: the parser that is asked now, its values so far, and the flag that waits for one."""

    parser: argparse.ArgumentParser
    command: str = ""
    taken: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
    waiting: argparse.Action | None = None


def complete(words: Sequence[str]) -> int:
    """Print the candidates."""
    with contextlib.suppress(Error, OSError, ValueError, http.client.HTTPException, SystemExit):
        for value, text in candidates(list(words) or [""]):
            print(f"{value}\t{text}" if text else value)
    return 0


def candidates(words: Sequence[str]) -> Candidates:
    """For the last of the words, given those before it."""
    from dray.cli.main import make_parser

    *before, current = words
    place = _walk(make_parser(before), before)
    flag, equals, value = current.partition("=")
    if place.waiting is not None:
        found = _values(place, place.waiting, current)
    elif equals and (action := _option(place, flag)) is not None:
        found = [(f"{flag}={one}", text) for one, text in _values(place, action, value)]
    elif current.startswith("-"):
        found = _flags(place)
    else:
        found = _positional(place, current)
    return [one for one in found if one[0].startswith(current) or one[0] == FILES]


def _walk(parser: argparse.ArgumentParser, words: Iterable[str]) -> _Place:
    place = _Place(parser)
    for word in words:
        if place.waiting is not None:
            place.flags[place.waiting.dest] = word
            place.waiting = None
        elif word.startswith("-") and len(word) > 1:
            flag, equals, value = word.partition("=")
            action = _option(place, flag)
            if action is not None and equals:
                place.flags[action.dest] = value
            elif action is not None and action.nargs != 0:
                place.waiting = action
        else:
            _take(place, word)
    return place


def _actions(place: _Place) -> Sequence[argparse.Action]:
    """All flags and words that the parser takes."""
    return place.parser._actions  # noqa: SLF001  # nothing public tells them


def _option(place: _Place, flag: str) -> argparse.Action | None:
    return next((one for one in _actions(place) if flag in one.option_strings), None)


def _take(place: _Place, word: str) -> None:
    action = _next_positional(place)
    if isinstance(action, _Commands) and word in action.choices:
        place.parser, place.taken = action.choices[word], []
        place.command = place.command or word
    else:
        place.taken.append(word)


def _next_positional(place: _Place) -> argparse.Action | None:
    every = [one for one in _actions(place) if not one.option_strings]
    if len(place.taken) < len(every):
        return every[len(place.taken)]
    return every[-1] if every and every[-1].nargs in ("*", "+", argparse.REMAINDER) else None


def _flags(place: _Place) -> Candidates:
    """The long ones; the short ones are for those who know them."""
    found = []
    for action in _actions(place):
        names = [one for one in action.option_strings if one.startswith("--")] or action.option_strings
        if action.help != argparse.SUPPRESS:
            found += [(one, _short(action.help)) for one in names]
    return sorted(found)


def _short(text: str | None) -> str:
    return " ".join((text or "").split()).partition(";")[0].partition(" (")[0]


def _positional(place: _Place, current: str) -> Candidates:
    action = _next_positional(place)
    if action is None:
        return []
    if isinstance(action, _Commands):
        helps = {one.dest: _short(one.help) for one in action._get_subactions()}  # noqa: SLF001
        return [(name, helps.get(name, "")) for name in action.choices]
    return _values(place, action, current)


def _values(place: _Place, action: argparse.Action, current: str) -> Candidates:
    if action.choices:
        return [(str(one), "") for one in action.choices]
    if action.option_strings:
        return _flag_values(place, action, current)
    if place.command in _OBJECTS:
        return _objects(place, current)
    if place.command in ("taint", "untaint") and action.dest == "target":
        return _targets(place, current)
    if place.command == "logs":
        return _plain(_names(place).of("pods"))
    if place.command == "explain":
        names = _names(place)
        return _plain([*names.of("claims"), *(f"pod/{one}" for one in names.of("pods"))])
    return _files_for(action)


def _flag_values(place: _Place, action: argparse.Action, current: str) -> Candidates:
    if action.dest == "namespace":
        return _plain(_names(place).of("namespaces"))
    if action.dest in ("node", "node_name"):
        return _plain(_names(place).of("nodes"))
    if action.dest == "container" and place.taken:
        return _plain(_names(place).containers(place.taken[0].removeprefix("pod/")))
    if action.dest == "about":
        return _typed(place, current)
    if action.dest == "context":
        return _plain(_contexts(place))
    return _files_for(action)


def _files_for(action: argparse.Action) -> Candidates:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return [(FILES, "")] if action.type is Path or metavar.startswith(_FILE_WORDS) else []


def _objects(place: _Place, current: str) -> Candidates:
    """A kind first, then names of it; or both in one word."""
    from dray.cli.complete_names import DEVICES, KINDS, find_kind

    if not place.taken:
        if "/" in current:
            return _typed(place, current)
        return _plain([*KINDS, DEVICES, *(["plugins"] if place.command == "get" else [])])
    kind = find_kind(place.taken[0])
    if kind == DEVICES:
        return _targets(place, current)
    return _plain(_names(place).of(kind)) if kind else []


def _typed(place: _Place, current: str) -> Candidates:
    """`KIND/NAME` in one word."""
    from dray.cli.complete_names import DEVICES, KINDS, find_kind

    word, slash, _ = current.partition("/")
    if not slash:
        return _plain(f"{one.words[0]}/" for one in KINDS.values())
    kind = find_kind(word)
    return _plain(f"{word}/{one}" for one in _names(place).of(kind)) if kind not in ("", DEVICES) else []


def _targets(place: _Place, current: str) -> Candidates:
    """`NODE/DEVICE`: nodes first, then the devices of the one that was written."""
    node, slash, _ = current.partition("/")
    names = _names(place)
    if not slash:
        return _plain(f"{one}/" for one in names.of("nodes"))
    return _plain(f"{node}/{one}" for one in names.devices(node))


def _names(place: _Place) -> Names:
    """Of the cluster that the flags so far mean."""
    from dray.cli.cluster import find_cluster
    from dray.cli.complete_names import Names

    kubeconfig, data_dir = (place.flags.get(one) for one in ("kubeconfig", "data_dir"))
    access = find_cluster(
        Path(kubeconfig) if kubeconfig else None,
        place.flags.get("context"),
        Path(data_dir) if data_dir else None,
    )
    return Names(access, place.flags.get("namespace", ""))


def _contexts(place: _Place) -> list[str]:
    import os

    from dray.client.kubeconfig_file import read_kubeconfig

    told = place.flags.get("kubeconfig") or os.environ.get("KUBECONFIG", "").partition(":")[0]
    found = read_kubeconfig(Path(told) if told else Path.home() / ".kube/config")
    return sorted(one.name for one in found.contexts)


def _plain(names: Iterable[str]) -> Candidates:
    return [(one, "") for one in names if one]
