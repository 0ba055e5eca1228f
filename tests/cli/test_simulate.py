"""`dray simulate`: how many more, where, and what runs out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.cli.main import main
from tests.cli.gpu_cluster import files
from tests.cli.test_explain import POD


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", *files(tmp_path, "A100"), "--claims", "5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 of 5 more fit, on 2 of 2 nodes (each: claim default/train)",
        "",
        "NODES     FIT      WHY NOT ONE MORE",
        "2 nodes   1 each   request gpu wants 1, 0 left: 1 in use",
        "",
        "Runs out first: request gpu wants 1, 0 left: 1 in use (on node-1)",
    ]


def test_enough_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", *files(tmp_path, "A100"), "--claims", "1", "--policy", "best-fit"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "all of 1 more fit, on 1 of 2 nodes (each: claim default/train)",
        "",
        "NODES    FIT   WHY NOT ONE MORE",
        "node-1   0     -",
        "node-2   1     -",
    ]


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", *files(tmp_path), "--claims", "5", "-o", "json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert (got["asked"], got["fits"], got["policy"], got["profile"]) == (5, 0, "first-fit", "correct")
    assert [(one["node"], one["fits"], one["shortage"]["check"]) for one in got["nodes"]] == [
        ("node-1", 0, "in use"),
        ("node-2", 0, "selector"),
    ]
    assert got["runsOutFirst"]["node"] == "node-1"


def test_a_template_stands_for_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(POD.split("---\n")[1].replace("count: 2", "count: 1"))
    cluster, _ = files(tmp_path)
    assert main(["simulate", "-f", cluster, str(template), "--claims", "9"]) == 0
    assert capsys.readouterr().out.startswith(
        "2 of 9 more fit, on 2 of 2 nodes (each: claim default/one-gpu)"
    )


def test_names_choose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(POD.split("---\n")[1].replace("count: 2", "count: 1"))
    words = ["-f", *files(tmp_path), str(template), "--claims", "9"]
    for name, head in (("train", "0 of 9 more fit"), ("template/one-gpu", "2 of 9 more fit")):
        assert main(["simulate", name, *words]) == 0
        assert capsys.readouterr().out.startswith(head)
    assert main(["simulate", "template/none", *words]) == 1
    assert "no ResourceClaimTemplate default/none in the files" in capsys.readouterr().err


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    for words, text in (
        (["-f", cluster, claim, "--claims", "0"], "--claims must be at least 1"),
        (["-f", cluster, "--claims", "1"], "no ResourceClaimTemplate"),
        (["-f", claim, "--claims", "1"], "no nodes"),
    ):
        assert main(["simulate", *words]) == 2
        assert text in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "-f", cluster])
    assert stopped.value.code == 2
    Path(claim).write_text(Path(claim).read_text().replace("deviceClassName: gpu", "deviceClassName: gold"))
    assert main(["simulate", "-f", cluster, claim, "--claims", "1"]) == 1
    assert "device class gold" in capsys.readouterr().err


def test_an_error_of_the_allocator_is_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = files(tmp_path)
    for name in given:
        text = Path(name).read_text()
        Path(name).write_text(text.replace("deviceClassName: gpu", "deviceClassName: none"))
    assert main(["simulate", "-f", *given, "--claims", "5", "-o", "json"]) == 1
    assert "could not retrieve device class none" in json.loads(capsys.readouterr().out)["error"]
