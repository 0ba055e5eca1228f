"""The pages as a site, by mkdocs. Pages of the repository keep their places, so links between them stay as they are."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build as build_site
from mkdocs.config import load_config

_ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_FIRST = ("README.md", "docs/index.md", "docs/tour.md")
_PROJECT = ("docs/house.md", "docs/tests.md", "docs/mutants.md", "docs/performance.md", *_ROOT_PAGES[1:])
_PARTS = (
    ("How to", "docs/howto/"),
    ("Reference", "docs/reference/"),
    ("Decisions", "docs/decisions/"),
    ("Examples", "examples/"),
)
_LINK = re.compile(r"""(?:\]\(|(?:src|srcset|href)=")([^)"#\s]+)""")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_NOT_PAGES = ("docs/make/", "docs/site/")


def build(site: Path, staged: Path) -> None:
    """Write the site, by way of a folder for copies of the pages. Fails, and says why, where a link leads nowhere."""
    stage(staged)
    places = {"docs_dir": str(staged.absolute()), "site_dir": str(site.absolute())}
    config = load_config("mkdocs.yml", strict=True, **places)
    config.nav = navigation()
    config.mdx_configs["toc"] = {"slugify": slug}
    build_site(config)


def pages() -> list[Path]:
    """All pages, sorted."""
    below = [*Path("docs").rglob("*.md"), *Path("examples").rglob("README.md")]
    found = [Path(one) for one in _ROOT_PAGES if Path(one).exists()]
    return sorted(found + [one for one in below if not one.as_posix().startswith(_NOT_PAGES)])


def navigation() -> list[dict[str, Any]]:
    """The parts with their pages: what to begin with, then by folder, then what is about the project itself."""
    last = [one for one in pages() if one.as_posix() in _PROJECT]
    parts = [(title, [one for one in pages() if one.as_posix().startswith(place)]) for title, place in _PARTS]
    placed = {one for _, found in parts for one in found}.union(last)
    start = sorted(
        (one for one in pages() if one not in placed), key=lambda one: (one.as_posix() not in _FIRST, one)
    )
    every = [("Start", start), *parts, ("Project", last)]
    return [{title: [{_title(one): one.as_posix()} for one in found]} for title, found in every if found]


def _title(page: Path) -> str:
    """Its first heading, without marks."""
    first = next((line for line in page.read_text().splitlines() if line.startswith("# ")), f"# {page.stem}")
    return first.removeprefix("# ").replace("`", "")


def stage(place: Path) -> None:
    """Copy the pages, and the files that they show or link to, as the repository has them."""
    shutil.rmtree(place, ignore_errors=True)
    for page in pages():
        target = place / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(_spaced(page.read_text())))
        for linked in _LINK.findall(page.read_text()):
            file = (page.parent / linked).resolve()
            if file.is_file() and file.suffix != ".md" and file.is_relative_to(Path.cwd()):
                copy = place / file.relative_to(Path.cwd())
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def _spaced(text: str) -> Iterator[str]:
    """A list right after a line of text is a list everywhere but in Python's Markdown, which wants an empty line before."""
    fenced, before = False, ""
    for line in text.splitlines(keepends=True):
        if line.startswith("```"):
            fenced = not fenced
        is_text = bool(before.strip()) and not _ITEM.match(before) and not before.startswith((" ", "#", "|"))
        if not fenced and _ITEM.match(line) and is_text:
            yield "\n"
        yield line
        before = line


def slug(text: str, separator: str) -> str:
    """A heading's anchor as forges make it, so that a link works there and here."""
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return kept.replace(" ", separator)
