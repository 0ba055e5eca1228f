"""What every look at the host returns: the facts that were found, and what was in the way of others."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Generic, TypeVar

from dray.errors import Error

T = TypeVar("T")
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was met while looking, and what to do about it; it hides one device at most."""

    path: str
    message: str


@dataclass(frozen=True)  # slots and Generic do not go together in Python 3.11
class Found(Generic[T]):
    """The result of one look, in the order of the host's names. A host without such devices has no items, no problems."""

    items: tuple[T, ...] = ()
    problems: tuple[Problem, ...] = ()


def problem_of(error: Error, path: str, *, before: str = "") -> Problem:
    """An error as a problem. It names the file if the error knows it, else `path`; `before` says what it means.

    Raises the error again where it is not the host's but this process's, out of descriptors or memory: nothing can be
    said about any device then, and a list without it would be a lie.
    """
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in _OURS:
        raise error
    named = getattr(error, "path", "") or path
    return Problem(showable(named), showable(f"{before}{error}"))


def showable(text: str) -> str:
    """Text that every terminal and every file takes: what a host or a device wrote may hold control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
