"""Plots of `docs/performance.md`, drawn from the tables of the page: how many times better Dray is than its peer."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from docs.make.made import Made

PAGE = Path("docs/performance.md")
PICTURES = Path("docs/pictures")
_WIDTH, _LABELS, _RIGHT, _TOP, _BAR, _GAP, _LINE = 900, 430, 70, 44, 12, 10, 15
_LABEL_LETTERS = 60
_STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-weight: 600; font-size: 15px }
    .small { fill: #59636e; font-size: 12px }
    .better { fill: #1a7f5a } .worse { fill: #b35900 } .grid { stroke: #d1d9e0 } .one { stroke: #59636e }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .small { fill: #9198a1 } .better { fill: #3fb68b } .worse { fill: #e0823d }
      .grid { stroke: #3d444d } .one { stroke: #9198a1 }
    }"""


@dataclass(frozen=True, slots=True)
class Plot:
    """The ratios of one section; a row of a table may have several."""

    title: str
    name: str
    rows: tuple[tuple[str, tuple[float, ...]], ...]

    @property
    def path(self) -> Path:
        """The picture."""
        return PICTURES / f"plot-{self.name}.svg"


def plots() -> list[Made]:
    """A picture for each section of the page whose table has a column `ratio`."""
    return [Made(plot.path, draw(plot)) for plot in read(PAGE.read_text())]


def read(page: str) -> list[Plot]:
    """The plots of a page."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading = section.split("\n", 1)[0]
        title, _, command = heading.partition(": ")
        rows = tuple(_rows(section))
        if rows:
            name = command.strip("`").rpartition(" ")[2] or title.lower().replace(" ", "-")
            found.append(Plot(title, name, rows))
    return found


def _rows(section: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    for lines in re.findall(r"(?:^\|.*\n?)+", section, flags=re.MULTILINE):
        head, _, *rows = map(_cells, lines.splitlines())
        column = next((at for at, cell in enumerate(head) if cell.split(", ")[-1] == "ratio"), None)
        whole = ""
        for cells in rows if column is not None else ():
            label = _label(cells[0], whole)
            whole = whole if cells[0].startswith("the same") else cells[0]
            if ratios := tuple(_numbers(cells[column or 0])):
                yield label, ratios


def _label(what: str, before: str) -> str:
    """`the same` is what the last row was that says it all."""
    if not what.startswith("the same"):
        return what
    rest = what.removeprefix("the same")
    return re.split(r"[:;] " if rest.startswith(",") else r"[:;,] ", before)[0] + rest


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _numbers(cell: str) -> Iterator[float]:
    """`1.3 / 1.0` gives two; a cell without a figure none."""
    for part in cell.split(" / "):
        if re.fullmatch(r"[0-9][0-9,.]*", part):
            yield float(part.replace(",", ""))


def draw(plot: Plot) -> str:
    """Bars on a logarithmic scale: to the right of 1 Dray is better, to the left its peer."""
    values = [value for _, row in plot.rows for value in row]
    low = min(0, math.floor(math.log10(min(values))))
    high = max(1, math.ceil(math.log10(max(values))))

    def place(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return round(_LABELS + share * (_WIDTH - _LABELS - _RIGHT), 1)

    drawn: list[str] = []
    y = _TOP + 20
    for label, row in plot.rows:
        lines = textwrap.wrap(label.replace("`", ""), _LABEL_LETTERS)
        height = max(len(row) * _BAR, len(lines) * _LINE)
        drawn += _words(lines, y + (height - len(lines) * _LINE) // 2)
        drawn += _bars(row, y + (height - len(row) * _BAR) // 2, [place(1), *map(place, row)])
        y += height + _GAP
    ticks = [(f"{10.0**power:g}", place(10.0**power)) for power in range(low, high + 1)]
    return _picture(plot.title, y + 6, [*_grid(ticks, y), *drawn, _line("one", place(1), y)])


def _words(lines: Sequence[str], y: int) -> Iterator[str]:
    for at, line in enumerate(lines):
        yield f'<text x="{_LABELS - 10}" y="{y + at * _LINE + 12}" text-anchor="end">{escape(line)}</text>'


def _bars(row: Sequence[float], y: int, places: Sequence[float]) -> Iterator[str]:
    one, *ends = places
    for at, (value, end) in enumerate(zip(row, ends, strict=True)):
        top, left, width = y + at * _BAR, min(one, end), max(abs(end - one), 1.5)
        kind = "better" if value >= 1 else "worse"
        yield f'<rect class="{kind}" x="{left}" y="{top}" width="{width:.1f}" height="{_BAR - 2}" rx="2"/>'
        yield f'<text class="small" x="{max(one, end) + 6:.1f}" y="{top + _BAR - 2}">{value:,g}</text>'


def _grid(ticks: Sequence[tuple[str, float]], bottom: int) -> Iterator[str]:
    for text, x in ticks:
        yield _line("grid", x, bottom)
        yield f'<text class="small" x="{x}" y="{_TOP + 4}" text-anchor="middle">{text}×</text>'


def _line(kind: str, x: float, bottom: int) -> str:
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="{_TOP + 10}" y2="{bottom}"/>'


def _picture(title: str, height: int, drawn: Sequence[str]) -> str:
    name = f"{title}: times better than the peer"
    body = "\n  ".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(name)}">\n'
        f"  <style>{_STYLE}\n  </style>\n"
        f'  <text class="title" x="10" y="22">{escape(name)}</text>\n  {body}\n</svg>\n'
    )
