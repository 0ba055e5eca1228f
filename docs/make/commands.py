"""All commands and flags, out of the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from docs.make.made import plain, table
from dray.cli.main import COMMANDS, make_parser

_HEAD = """# Commands and flags

Every command with all it takes, made from the program by `make docs`. What they print and examples are on [the command
line](cli.md). Every command also takes `--help`, `--log-format text|json` and `--log-level debug|info|warning|error`."""
_Commands = argparse._SubParsersAction  # noqa: SLF001  # a parser has no other way to tell its commands
_EVERYWHERE = {"--help", "--log-format", "--log-level"}
_COUNTS = {"?": "[{}]", "*": "[{}…]", "+": "{}…", argparse.REMAINDER: "{}…"}


def commands() -> str:
    """The page."""
    return "\n\n".join([_HEAD, *(_section(name) for name in COMMANDS)]) + "\n"


def flags_of(name: str) -> set[str]:
    """Every spelling of every flag of a command, those of its commands among them."""
    return {
        flag for one in _parsers(_parser(name)) for action in _actions(one) for flag in action.option_strings
    }


def _section(name: str) -> str:
    parts = [f"## dray {name}", f"{COMMANDS[name]}."]
    for parser in _parsers(_parser(name)):
        rows = [(f"`{_shown(action)}`", _meaning(action)) for action in _told(parser)]
        parts.append(f"`{_usage(parser)}`")
        if rows:
            parts.append(table(("flag", "meaning"), rows))
    return "\n\n".join(parts)


def _parser(name: str) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = next(
        one.choices[name] for one in _actions(make_parser([name])) if isinstance(one, _Commands)
    )
    return found


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Those that take a whole line: the parser itself, or each of its commands."""
    below = [one for one in _actions(parser) if isinstance(one, _Commands)]
    if not below:
        yield parser
    for action in below:
        for one in action.choices.values():
            yield from _parsers(one)


def _actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    return parser._actions  # noqa: SLF001  # nothing public tells them


def _told(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        one
        for one in _actions(parser)
        if one.help != argparse.SUPPRESS and not _EVERYWHERE & set(one.option_strings)
    ]


def _usage(parser: argparse.ArgumentParser) -> str:
    """The command, what stands without a flag, and what must be given."""
    needed = [f"{_shown(one)}" for one in _told(parser) if one.option_strings and one.required]
    words = [_shown(one) for one in _told(parser) if not one.option_strings]
    return " ".join([parser.prog.split(" [")[0], *needed, *words])


def _shown(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + (f" {value}" if value else "")


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    named = action.metavar if isinstance(action.metavar, str) else ""
    if not named and action.choices is not None:
        named = "|".join(map(str, action.choices))
    return _COUNTS.get(str(action.nargs), "{}").format(named or action.dest.upper())


def _meaning(action: argparse.Action) -> str:
    """The help text, which tells the default."""
    text = " ".join((action.help or "").replace("%%", "%").split())
    required = " (required)" if action.option_strings and action.required else ""
    return plain(text) + required
