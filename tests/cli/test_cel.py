"""`dray cel`: exit codes, the table, JSON, cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.cli.main import main
from tests.waiting import PATIENCE

SLICES = """\
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: s}
  spec:
    driver: gpu.example.com
    nodeName: node-1
    pool: {name: node-1, generation: 1, resourceSliceCount: 1}
    devices:
    - name: gpu-0
      attributes: {model: {string: A100}, index: {int: 0}}
      capacity: {memory: {value: 40Gi}}
    - name: gpu-1
      attributes: {model: {string: H100}, index: {int: 1}}
      capacity: {memory: {value: 80Gi}}
- apiVersion: v1
  kind: Node
  metadata: {name: node-1}
"""
A = 'device.attributes["gpu.example.com"]'


@pytest.fixture
def slices(tmp_path: Path) -> str:
    path = tmp_path / "slices.yaml"
    path.write_text(SLICES)
    return str(path)


def test_the_table(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", f'{A}.index >= 0 && {A}.model == "A100"', "-f", slices]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Estimated cost: at most 10 of 1000000: accepted",
        f"Reads: {A}.index, {A}.model",
        "Matches 1 of 2 devices",
        "",
        "DEVICE                         MATCH   WHY",
        "gpu.example.com/node-1/gpu-0   yes",
        f'gpu.example.com/node-1/gpu-1   no      {A}.model == "A100" is false: {A}.model is "H100"',
    ]


def test_a_selector_that_takes_too_long_is_stopped(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"lists.range(9000).all(x, string(x) != '') && {A}.index >= 0"
    assert main(["cel", text, "-f", slices, "--timeout", "0.000001"]) == 1
    *_, first, second = capsys.readouterr().out.splitlines()
    why = "error   stopped after 1e-06 s: whether the selector matches here is not known"
    assert (first[-len(why) :], second[-len(why) :]) == (why, why)


def test_a_selector_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", "device.driver == ''"]) == 0
    assert capsys.readouterr().out == (
        "Estimated cost: at most 2 of 1000000: accepted\nReads: device.driver\n"
    )


def test_an_error_on_a_device_is_a_failure(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", f'{A}.model == "A100" || {A}.nothing', "-f", slices]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "gpu.example.com/node-1/gpu-1   error   no such key: nothing"


def test_faults_have_a_caret(capsys: pytest.CaptureFixture[str]) -> None:
    for text, shown in (
        ("device.driver ==", "Syntax error"),
        ("device.drive == 'x'", "undefined field 'drive'"),
    ):
        assert main(["cel", text]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        head, line, caret = printed.err.splitlines()
        assert shown in head
        assert line == f" | {text}"
        assert caret.endswith("^")
    assert main(["cel", "1"]) == 2
    assert capsys.readouterr().err == "dray: must evaluate to bool or the unknown type, not int\n"


def test_too_complex_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))"]) == 1
    assert "too complex, an API server refuses it" in capsys.readouterr().out
    assert main(["cel", "true || " * 1300 + "true"]) == 2
    assert "Too long" in capsys.readouterr().err


def test_json(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", f'{A}.model == "A100"', "-f", slices, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["estimatedCost"] == 5
    assert document["costLimit"] == 1_000_000
    assert document["tooComplex"] is False
    assert [one["match"] for one in document["devices"]] == [True, False]
    assert document["devices"][0]["falsePart"] is None
    assert document["devices"][1]["falsePart"] == {
        "text": f'{A}.model == "A100"',
        "position": 0,
        "saw": {f"{A}.model": '"H100"'},
    }
    assert main(["cel", "nope", "-o", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["estimatedCost"] is None
    assert document["compileError"].startswith("compilation failed: ERROR: <input>:1:1: undeclared reference")


def test_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", f"{A}.x.includes(1)"]) == 2
    assert main(["cel", f"{A}.x.includes(1)", "--feature-gates", "DRAListTypeAttributes=true"]) == 0
    assert main(["cel", "device.allowMultipleAllocations"]) == 0
    gates = "DRAListTypeAttributes=true,DRAConsumableCapacity=false"
    assert main(["cel", "device.allowMultipleAllocations", "--feature-gates", gates]) == 2
    assert main(["cel", "true", "--feature-gates", "Nope=true"]) == 2
    assert "--feature-gates: no gate 'Nope': there are " in capsys.readouterr().err


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel"]) == 2
    assert main(["cel", "true", "--cases", "x"]) == 2
    assert main(["cel", "true", "-f", str(tmp_path / "nothing.yaml")]) == 2
    assert "nothing.yaml" in capsys.readouterr().err
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"name": "a", "expression": "true"}\n[1]\n')
    assert main(["cel", "--cases", str(cases)]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["match"] is True
    assert f"{cases}:2: not a case" in printed.err


def test_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device: dict[str, Any] = {"driver": "d", "attributes": {"x": {"int": 1}}, "capacity": {}}
    texts = ("device.attributes['d'].x == 1", "nope", "device.attributes['d'].y")
    path = tmp_path / "cases.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"name": text, "expression": text, "features": [], "device": device}) for text in texts
        )
    )
    assert main(["cel", "--cases", str(path)]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(answer) for answer in answers] == [
        ["name", "compileError", "estimatedCost", "match", "error", "cost"]
    ] * 3
    assert answers[0] == {
        "name": texts[0],
        "compileError": "",
        "estimatedCost": 5,
        "match": True,
        "error": "",
        "cost": 5,
    }
    assert answers[1]["compileError"] and answers[1]["estimatedCost"] is None
    assert (answers[2]["match"], answers[2]["error"], answers[2]["cost"]) == (None, "no such key: y", 4)


def test_slices_of_an_older_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """v1beta1 has a device's fields under `basic`: read as v1 it has no attributes, and nothing matches."""
    file = tmp_path / "old.yaml"
    text = (
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\nmetadata: {name: s}\n"
        "spec: {driver: d.example.com, nodeName: n, pool: {name: n, generation: 1, resourceSliceCount: 1}, "
        "devices: [{name: d, basic: {attributes: {m: {string: x}}}}]}\n"
    )
    file.write_text(text)
    assert main(["cel", 'device.attributes["d.example.com"].m == "x"', "-f", str(file)]) == 0
    assert "Matches 1 of 1 devices" in capsys.readouterr().out
    file.write_text(text.replace("v1beta1", "v1alpha2"))
    assert main(["cel", "true", "-f", str(file)]) == 2
    assert "resource.k8s.io/v1alpha2 is not read, resource.k8s.io/v1 is" in capsys.readouterr().err
    file.write_text(text.replace("attributes:", "atributes:"))
    assert main(["cel", "true", "-f", str(file)]) == 2
    assert 'atributes: unknown field: did you mean "attributes"?' in capsys.readouterr().err


def test_from_stdin() -> None:
    command = [sys.executable, "-m", "dray", "cel", f"{A}.index == 1", "-f", "-", "-o", "json"]
    found = subprocess.run(
        command, input=SLICES, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert [one["match"] for one in json.loads(found.stdout)["devices"]] == [False, True]
