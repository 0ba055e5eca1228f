"""The site is built, all of it hangs together, and a browser that shows it asks nobody else for anything."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from mkdocs.exceptions import Abort

from docs.make.site import build, navigation, pages, slug, stage

LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "srcset",
    "video": "src",
    "object": "data",
}


class Loads(HTMLParser):
    """What a browser fetches by itself, what runs inline, and where links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        self.ids |= {facts["id"]} if "id" in facts else set()
        self.inline += [name for name in facts if name.startswith("on") or name == "style"]
        if LOADS.get(tag) in facts:
            self.fetched.append(facts[LOADS[tag]])
        elif tag in ("script", "style"):
            self.inline.append(tag)
        if tag == "a" and "href" in facts:
            self.links.append(facts["href"])


def look(page: Path) -> Loads:
    seen = Loads()
    seen.feed(page.read_text())
    return seen


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    build(place / "site", place / "pages")
    return place / "site"


def test_every_page_is_there_once(site: Path) -> None:
    listed = [
        path for part in navigation() for rows in part.values() for row in rows for path in row.values()
    ]
    assert sorted(listed) == sorted(one.as_posix() for one in pages())
    html = {one.relative_to(site).with_suffix(".md").as_posix() for one in site.rglob("*.html")}
    assert html == {re.sub(r"README\.md$", "index.md", one) for one in listed}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in sorted(site.rglob("*.html")):
        seen = look(page)
        assert seen.inline == [], f"{page} would break under a strict policy"
        for address in seen.fetched:
            assert not re.match(r"[a-z]+:|//", address), f"{page} loads {address}"
            assert (page.parent / address).is_file(), f"{page} loads {address}, which is not there"
    for sheet in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        text = re.sub(r'xmlns(:\w+)?="[^"]*"', "", sheet.read_text())
        assert not re.search(r"@import|url\(|https?://|\bsrc=", text), sheet
    for script in site.rglob("*.js"):
        assert not re.search(
            r"""(?:fetch|open|importScripts|Worker)\(\s*['"]https?:""", script.read_text()
        ), script


def test_links_within_the_site_lead_somewhere(site: Path) -> None:
    seen = {page: look(page) for page in sorted(site.rglob("*.html"))}
    for page, found in seen.items():
        for link in found.links:
            address, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", address):
                continue
            target = (page.parent / address).resolve() if address else page
            assert target.is_file(), f"{page} links to {link}"
            if anchor and target in seen:
                assert anchor in seen[target].ids, f"{page} links to {link}"


def test_search_knows_the_pages(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    assert "docs/reference/errors.html" in index
    assert (site / "search" / "lunr.js").is_file()


def test_a_link_to_nowhere_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mkdocs.yml", "docs/site"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(Path(name).resolve())
    (tmp_path / "README.md").write_text("# Page\n[away](docs/gone.md)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Abort, match="strict mode"):
        build(tmp_path / "out", tmp_path / "staged")


def test_lists_after_text_are_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("# Page\ntext:\n- one\n  more\n- two\n```\ntext\n- code\n```\n")
    stage(tmp_path / "staged")
    staged = (tmp_path / "staged" / "README.md").read_text()
    assert staged == "# Page\ntext:\n\n- one\n  more\n- two\n```\ntext\n- code\n```\n"


def test_anchors_are_those_of_forges() -> None:
    assert slug("dray explain [CLAIM | pod/NAME] [-f FILE…]", "-") == "dray-explain-claim--podname--f-file"
