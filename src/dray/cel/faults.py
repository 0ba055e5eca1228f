"""What is wrong with an expression: before it runs, and while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from dray.errors import InvalidError

_SHOWN_FAULTS = 100
_SHOWN_LENGTH = 1 << 16
"""Characters after which no further fault is shown: each brings its line of the text, which may be all of it."""
_SNIPPET_LIMIT = 16384
_CARET = {True: "^", False: "\uff3e"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `position` is an offset in characters into the text, -1 where it has no place."""

    message: str
    position: int = -1


class CelError(InvalidError):
    """The expression cannot be used. `faults` are in the order of the text; of very many only the first found are kept, and
    `omitted` counts the others. `position` is that of the first."""

    def __init__(
        self, message: str, *, position: int = 0, faults: tuple[Fault, ...] = (), omitted: int = 0
    ) -> None:
        self.faults = faults or (Fault(message, position),)
        self.omitted = omitted
        super().__init__(message, causes=self.faults)
        self.position = self.faults[0].position

    @classmethod
    def of(cls, faults: list[Fault]) -> CelError:
        """One error for all faults."""
        kept = tuple(sorted(faults[:_SHOWN_FAULTS], key=lambda fault: fault.position))
        return cls("; ".join(fault.message for fault in kept), faults=kept, omitted=len(faults) - len(kept))


class EvaluationError(Exception):
    """A value that could not be computed: an outcome of evaluation, absorbed by `&&`, `||` and `?:` as CEL says.

    Not one of our errors: it never leaves `cel/` but through `Program`, whose callers turn it into theirs.
    """


def render(error: CelError, text: str) -> str:
    """The faults one below the other, each with its line of the text and a caret, as cel-go shows them."""
    shown: list[str] = []
    left = _SHOWN_LENGTH
    for fault in error.faults:
        if left <= 0:
            break
        shown.append(_render(fault, text))
        left -= len(shown[-1])
    if omitted := error.omitted + len(error.faults) - len(shown):
        shown.append(f"{omitted} more errors were truncated")
    return "\n".join(shown)


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Both count from 1."""
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


def _render(fault: Fault, text: str) -> str:
    if fault.position < 0:
        return f"ERROR: <input>:-1:0: {fault.message}"
    line, column = line_and_column(text, fault.position)
    head = f"ERROR: <input>:{line}:{column}: {fault.message}"
    snippet = text.split("\n")[line - 1].replace("\t", " ")
    if len(snippet.encode(errors="replace")) > _SNIPPET_LIMIT:
        return head
    dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[: column - 1])
    at = snippet[column - 1 : column]
    return f"{head}\n | {snippet}\n | {dots}{_CARET[at.isascii()]}"
