"""The pinned packages of a lock file, with their hashes and who needs them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LOCK = Path("requirements.lock")
LOCKS = (
    LOCK,
    Path("requirements-e2e.lock"),
    Path("requirements-mutants.lock"),
    Path("requirements-lock.lock"),
    Path("deploy/requirements.lock"),
)
OURSELVES = "dray (pyproject.toml)"
_ENTRY = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(?P<extras>\[[^]]*\])?==(?P<version>[^\s;\\]+)(?P<rest>.*)$"
)
_START = re.compile(r"[A-Za-z0-9.@/-]")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")


@dataclass(frozen=True, slots=True)
class Package:
    """One entry. `needed_by` are names of other entries, or `OURSELVES` and groups of ours in its form."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]

    @property
    def is_pinned(self) -> bool:
        """Whether nothing else than what was looked at once can be installed in its place."""
        return bool(self.version and self.hashes) and "*" not in self.version


def read_lock(text: str) -> list[Package]:
    """All entries, also those that are pinned badly: without a version it is empty."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if _START.match(line):
            found.append((line, []))
        elif found:
            found[-1][1].append(line.strip())
    return sorted((_package(first, rest) for first, rest in found), key=lambda one: (one.name, one.version))


def _package(first: str, rest: list[str]) -> Package:
    match = _ENTRY.match(first)
    notes = (line.lstrip("# ").removeprefix("via").strip() for line in rest if line.startswith("#"))
    return Package(
        _plain(match["name"]) if match else first.rstrip(" \\"),
        match["version"] if match else "",
        tuple(_HASH.findall(" ".join([first, *rest]))),
        frozenset(filter(None, notes)),
    )


def _plain(name: str) -> str:
    """As the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed_for(packages: Iterable[Package], *roots: str) -> list[Package]:
    """Those that the roots need, directly or not, and the roots that are packages themselves."""
    every, wanted = list(packages), set(roots)
    while more := {one.name for one in every if one.needed_by & wanted} - wanted:
        wanted |= more
    return [one for one in every if one.name in wanted]


def extras(project: Path = Path("pyproject.toml")) -> list[str]:
    """The packages that the wheel's extras name."""
    named = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    return sorted({_plain(re.split(r"[^\w.-]", text)[0]) for texts in named.values() for text in texts})
