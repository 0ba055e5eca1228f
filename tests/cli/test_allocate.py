"""`dray allocate`: manifests and cases, tables and JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.cli.main import main
from tests.cases import read_cases
from tests.cli.gpu_cluster import CLAIM, CLUSTER, MODEL, files
from tests.waiting import PATIENCE

CASES = Path(__file__).parent.parent / "allocation" / "cases" / "recorded.jsonl"


def answer(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = main(["allocate", *words, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_first_node_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = answer("-f", *files(tmp_path, "A100"), capsys=capsys)
    assert code == 0
    assert document == {
        "node": "node-1",
        "results": [
            {
                "devices": {
                    "results": [
                        {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
                    ]
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                    ]
                },
            }
        ],
        "refusal": None,
        "error": None,
    }
    code, document = answer("-f", *files(tmp_path, "A100"), "--node", "node-2", capsys=capsys)
    assert (code, document["node"]) == (0, "node-2")


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocate", "-f", *files(tmp_path, "A100")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Fits on node-1",
        "",
        "CLAIM           REQUEST   DEVICE                         SHARE",
        "default/train   gpu       gpu.example.com/node-1/gpu-0   -",
    ]


def test_a_refusal_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = answer("-f", *files(tmp_path), capsys=capsys)
    assert (code, document["node"], document["results"], document["error"]) == (1, None, [], None)
    refusal = document["refusal"]
    assert (refusal["profile"], refusal["tier"]) == ("correct", "experimental")
    assert [(group["nodes"], group["requests"][0]["removed"]) for group in refusal["nodes"]] == [
        (["node-1"], {"node": 1, "selector": 1, "taint": 1, "in use": 1}),
        (["node-2"], {"node": 3, "selector": 1}),
    ]
    holder = {"device": "gpu.example.com/node-1/gpu-1", "claim": "default/old", "pods": ["web-0"]}
    assert refusal["nodes"][0]["requests"][0]["heldBy"] == [holder]
    parts = [part for miss in refusal["nearestMisses"] for part in miss["falseParts"]]
    assert parts == [{"of": "request", "selector": 0, "text": f'{MODEL} == "H100"', "saw": {MODEL: '"A100"'}}]
    assert [(one["node"], one["edits"][0]["kind"]) for one in refusal["changes"]] == [
        ("node-1", "free"),
        ("node-1", "tolerate"),
        ("node-1", "selector"),
        ("node-2", "selector"),
    ]
    code, document = answer("-f", *files(tmp_path), "--node", "node-2", capsys=capsys)
    assert (code, document["node"], len(document["refusal"]["nodes"])) == (1, "node-2", 1)


def test_a_refusal_as_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocate", "-f", *files(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Does not fit on any of 2 nodes (profile correct, experimental allocator)"
    assert lines[2:5] == [
        "NODES    CLAIM           REQUEST   WANTS   DEVICES   SELECTOR   TAINT   IN USE   LEFT",
        "node-1   default/train   gpu       1       3         -1         -1      -1       0",
        "node-2   default/train   gpu       1       1         -1                          0",
    ]
    assert f'    selector: {MODEL} == "H100" is false: {MODEL} is "A100"' in lines


def test_an_error_of_the_allocator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    Path(claim).write_text(CLAIM.replace("deviceClassName: gpu", "deviceClassName: gold"))
    code, document = answer("-f", cluster, claim, capsys=capsys)
    assert (code, document["refusal"]) == (1, None) and "device class gold" in document["error"]
    assert main(["allocate", "-f", cluster, claim]) == 1
    assert capsys.readouterr().err.startswith("dray: claim default/train, request gpu: could not retrieve")


def test_faults_name_file_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    Path(claim).write_text(
        "# a comment\n" + CLAIM.replace("name: gpu", "name: G_P_U", 1).replace(".model", ".", 1)
    )
    assert main(["allocate", "-f", cluster, claim]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    head, *faults = printed.err.splitlines()
    assert head == "dray: 2 faults:"
    assert all(
        line.startswith(f"  {claim}:2: ResourceClaim train: spec.devices.requests[0].") for line in faults
    )


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    for words, text in (
        (["train", "--cases", str(CASES)], "give objects with -f FILE, or --cases FILE"),
        (["-f", cluster, "--cases", str(CASES)], "give objects with -f FILE, or --cases FILE"),
        (["-f", cluster], "no ResourceClaim without an allocation"),
        (["-f", claim], "no nodes"),
        (["-f", cluster, claim, "--profile", "k8s-1.0"], "no profile 'k8s-1.0'"),
        (["-f", cluster, claim, "--feature-gates", "X=true"], "--feature-gates: no gate 'X'"),
        (["-f", str(tmp_path / "nothing.yaml")], "nothing.yaml"),
    ):
        assert main(["allocate", *words]) == 2
        assert text in capsys.readouterr().err


def test_a_node_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("{apiVersion: v1, kind: Node, metadata: {name: node-2}}")
    words = ["allocate", "-f", *files(tmp_path, "A100"), str(nodes)]
    assert main([*words, "--node", "node-1"]) == 1
    assert "no Node node-1 in the files" in capsys.readouterr().err
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("Fits on node-2")


def test_profiles_and_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = files(tmp_path, "A100")
    code, document = answer("-f", *words, "--policy", "best-fit", capsys=capsys)
    assert (code, document["node"]) == (0, "node-2")
    gates = "DRADeviceTaints=false"
    code, document = answer("-f", *files(tmp_path), "--feature-gates", gates, capsys=capsys)
    assert (code, document["results"][0]["devices"]["results"][0]["device"]) == (0, "gpu-2")
    code, document = answer("-f", *files(tmp_path), "--profile", "k8s-1.36", capsys=capsys)
    assert (document["refusal"]["profile"], document["refusal"]["tier"]) == ("k8s-1.36", "incubating")


def test_recorded_cases() -> None:
    command = [sys.executable, "-m", "dray", "allocate", "--cases", str(CASES)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    answers = [json.loads(line) for line in shown.stdout.splitlines()]
    cases = read_cases(CASES)
    assert [list(one) for one in answers] == [["name", "results", "error"]] * len(cases)
    assert [one["name"] for one in answers] == [one["name"] for one in cases]
    assert [one["results"] is None for one in answers] == [one["results"] is None for one in cases]
    assert [bool(one["error"]) for one in answers] == [bool(one["error"]) for one in cases]


def test_a_line_that_is_no_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"name": "empty"}\n\n[1]\n')
    assert main(["allocate", "--cases", str(path)]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"name": "empty", "results": [], "error": ""}
    assert f"{path}:3: not a case" in printed.err


def test_from_stdin() -> None:
    text = f"{CLUSTER}---\n{CLAIM.replace('MODEL', 'A100')}"
    command = [sys.executable, "-m", "dray", "allocate", "-f", "-", "-o", "json"]
    shown = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert json.loads(shown.stdout)["node"] == "node-1"
