"""What `make docs` writes is as the code says, and complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs.make.__main__ import everything
from docs.make.commands import flags_of
from docs.make.made import between_marks, plain, table, write
from docs.make.metrics import registers
from docs.make.performance import PAGE, Plot, draw, read
from docs.make.settings import settings
from dray.cli.main import COMMANDS

SOURCE = Path("src/dray")


def test_everything_made_is_current() -> None:
    assert write(everything(), check=True) == [], "run `make docs`"


def test_every_metric_in_the_code_is_in_the_reference() -> None:
    """By place: a metric that is announced where no register was asked would be missing from the page."""
    ways = {"counter", "gauge", "histogram", "series"}
    announced = {
        (str(path.resolve()), call.lineno, call.end_lineno or call.lineno)
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "runtime" / "metrics.py" and "runtime.metrics" in path.read_text()
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ways
        and (call.args or call.keywords)
    }
    asked = {one.site for register in registers().values() for one in register.announced}
    missing = [
        (path, start)
        for path, start, end in sorted(announced)
        if not any((path, line) in asked for line in range(start, end + 1))
    ]
    assert missing == []
    assert len(announced) > 50


@pytest.mark.parametrize("program", registers())
def test_labels_of_every_metric_are_known(program: str) -> None:
    for one in registers()[program].announced:
        assert all(re.fullmatch(r"[a-z_]+", label) for label in one.labels()), one


def test_flags_that_the_command_line_page_names_exist() -> None:
    """In a section about a command, what stands in backticks or in its heading and looks like a flag is one of a command of ours."""
    known = {flag for name in COMMANDS for flag in flags_of(name)} | {"--version", "--help"}
    page = re.sub(
        r"^```.*?^```", "", Path("docs/reference/cli.md").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    named = set(
        re.findall(r"(?<![\w-])--[a-z][a-z-]+", " ".join(re.findall(r"`[^`\n]*`|^##.*$", page, re.MULTILINE)))
    )
    assert named - known == set()
    assert len(named) > 30


def test_every_command_has_its_flags_on_the_page() -> None:
    page = Path("docs/reference/commands.md").read_text()
    for name in COMMANDS:
        section = page.partition(f"\n## dray {name}\n")[2].partition("\n## ")[0]
        told = set(re.findall(r"(?<![\w-])--[a-z-]+", section))
        hidden = {"--log-format", "--log-level", "--help", "--supervise"}
        assert {flag for flag in flags_of(name) if flag.startswith("--")} - told <= hidden, name


def test_settings_are_named_as_in_the_file() -> None:
    page = settings()
    assert "| `dray.nvidia.deviceIDStrategy` | text | `uuid` |" in page
    assert "| `dray.sim.devices[].shared{}.step` | quantity |  |" in page


def test_a_page_without_its_mark_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="needs the lines"):
        between_marks(page, part="text")
    page.write_text("a\n<!-- made: part, by `make docs` -->\nold\n<!-- end of what is made -->\nz\n")
    made = between_marks(page, part="new\n")
    assert write([made], check=True) == [page]
    assert write([made]) == [page]
    assert write([between_marks(page, part="new")]) == []
    assert "old" not in page.read_text()
    assert page.read_text().endswith("-->\nz\n")


def test_cells_survive_markdown() -> None:
    assert table(["a"], [["x|y"]]).splitlines()[-1] == "| x\\|y |"
    assert plain("<any> `<code>` *") == "&lt;any> `<code>` \\*"


def test_plots_are_linked_and_say_what_the_table_says() -> None:
    page = PAGE.read_text()
    assert [plot.name for plot in read(page) if f"](pictures/{plot.path.name})" not in page] == []
    kept = {path.name for path in Path("docs/pictures").glob("plot-*.svg")}
    assert kept == {plot.path.name for plot in read(page)}


def test_a_plot_is_drawn_from_the_column_of_ratios() -> None:
    text = """# Page
## Things: `dray bench things`

| what | unit | Dray | ratio |
|---|---|---|---|
| one: with parts | ms | 7 | 2.5 |
| the same, later | ms | 7 / 8 | 1,000 / 0.5 |
| nothing to compare | ms | 3 | – |

| what | ratio of others, not ours |
|---|---|
| other | 4 |
"""
    rows = (("one: with parts", (2.5,)), ("one, later", (1000.0, 0.5)))
    assert read(text) == [Plot("Things", "things", rows)]
    picture = draw(read(text)[0])
    assert picture.count('class="better"') == 2
    assert picture.count('class="worse"') == 1
    assert "prefers-color-scheme: dark" in picture
    assert ">1,000<" in picture
