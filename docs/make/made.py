"""Files that a program makes, wholly or between two marks of a page that people write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_END = "<!-- end of what is made -->"


@dataclass(frozen=True, slots=True)
class Made:
    """The whole text of a file."""

    path: Path
    text: str

    @property
    def is_current(self) -> bool:
        """Whether the file says so already."""
        return self.path.is_file() and self.path.read_text() == self.text


def between_marks(path: Path, **parts: str) -> Made:
    """The page with `<!-- made: NAME -->` followed by the part of that name. ValueError where a mark is missing."""
    text = path.read_text()
    for name, part in parts.items():
        mark = f"<!-- made: {name}, by `make docs` -->"
        before, found, rest = text.partition(f"{mark}\n")
        _, ended, after = rest.partition(_END)
        if not (found and ended):
            raise ValueError(f"{path} needs the lines {mark!r} and {_END!r}")
        text = f"{before}{mark}\n\n{part.strip()}\n\n{_END}{after}"
    return Made(path, text)


def write(files: Iterable[Made], *, check: bool = False) -> list[Path]:
    """Write those that are stale, or only tell which."""
    stale = [one for one in files if not one.is_current]
    for one in stale:
        if not check:
            one.path.write_text(one.text)
    return [one.path for one in stale]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Text that Markdown shows as it is, apart from code in backticks."""
    parts = text.split("`")
    return "`".join(
        part if at % 2 else part.replace("<", "&lt;").replace("*", "\\*") for at, part in enumerate(parts)
    )
