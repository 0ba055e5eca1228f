from __future__ import annotations

import json

import pytest

from dray.bench.measure import Figure
from dray.cli.bench import BENCHMARKS, as_json, as_table
from dray.cli.main import main

FIGURES = [Figure("decode", "µs", 2.0, "json", 3.0), Figure("alone", "MiB", 12.3456789)]


def test_json_has_the_ratio_and_the_machine() -> None:
    shown = json.loads(as_json(FIGURES))
    assert [(row["name"], row["ratio"], row["peer"]) for row in shown["figures"]] == [
        ("decode", 1.5, "json"),
        ("alone", None, None),
    ]
    assert shown["machine"]["cpus"] > 0


def test_table_lines_up() -> None:
    head, decode, alone = as_table(FIGURES).splitlines()
    assert head.split() == ["WHAT", "UNIT", "DRAY", "PEER", "PEER'S", "RATIO"]
    assert decode.split() == ["decode", "µs", "2", "json", "3", "1.50x"]
    assert alone.split() == ["alone", "MiB", "12.35", "-", "-", "-"]
    assert head.index("DRAY") == decode.index("2") == alone.index("12.35")


def test_every_benchmark_takes_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "api", "-o", "json"]) == 0
    shown = capsys.readouterr()
    rows = json.loads(shown.out)["figures"]
    assert len(rows) == shown.err.count("\n") >= 8
    assert all(row["dray"] > 0 for row in rows)


def test_an_unknown_benchmark_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in BENCHMARKS)
