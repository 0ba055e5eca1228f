"""`dray explain`: the funnel, near misses, changes, pods, and what is not there yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dray.cli.main import main
from tests.cli.gpu_cluster import MODEL, files

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 2}}]}}}
"""


def lines(*words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out.splitlines()


def document(*words: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["explain", *words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_claim_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "request gpu of claim default/train"
    assert lines("-f", *files(tmp_path), capsys=capsys) == [
        "Claim default/train does not fit on any of 2 nodes (profile correct, experimental allocator)",
        "",
        "NODES    CLAIM           REQUEST   WANTS   DEVICES   SELECTOR   TAINT   IN USE   LEFT",
        "node-1   default/train   gpu       1       3         -1         -1      -1       0",
        "node-2   default/train   gpu       1       1         -1                          0",
        "",
        "Nearest miss:",
        "  gpu.example.com/node-1/gpu-1 on node-1 for request gpu",
        "    in use: gpu.example.com/node-1/gpu-1 (claim default/old, pod web-0)",
        "  gpu.example.com/node-1/gpu-0 on node-1 for request gpu",
        f'    selector: {MODEL} == "H100" is false: {MODEL} is "A100"',
        "",
        "In use:",
        "  gpu.example.com/node-1/gpu-1 (claim default/old, pod web-0)",
        "",
        "What would make it fit (each was tried):",
        "  on node-1: free gpu.example.com/node-1/gpu-1 (claim default/old, pod web-0)",
        f"  on node-1: tolerate the taint hot:NoSchedule in {place}",
        f'  on node-1, node-2: leave out `{MODEL} == "H100"` of the selector in {place}',
    ]


def test_a_claim_that_fits_somewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = tmp_path / "more.yaml"
    more.write_text(
        "\n---\n".join(
            f"{{apiVersion: v1, kind: Node, metadata: {{name: node-{number}}}}}" for number in (1, 2, 3, 4)
        )
    )
    shown = lines("-f", *files(tmp_path, "A100"), str(more), capsys=capsys)
    assert shown == [
        "Claim default/train fits on 2 of 4 nodes: node-1, node-2 (profile correct, experimental allocator)",
        "",
        "NODES     CLAIM           REQUEST   WANTS   DEVICES   LEFT",
        "2 nodes   default/train   gpu       1       0         0",
    ]


def test_pods_and_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text(POD)
    words = ["-f", *files(tmp_path), str(pods)]
    got = document(*words, capsys=capsys)
    assert [(one["kind"], one["name"], one["claims"]) for one in got["workloads"]] == [
        ("pod", "default/job", ["default/job-gpu"]),
        ("claim", "default/train", ["default/train"]),
    ]
    job = got["workloads"][0]["refusal"]
    assert [(one["node"], one["text"]) for one in job["changes"]] == [
        ("node-1", "free gpu.example.com/node-1/gpu-1 (claim default/old, pod web-0)"),
        ("node-1", "tolerate the taint hot:NoSchedule in request gpu of claim default/job-gpu"),
        ("node-1", "ask for 1 device instead of 2 in request gpu of claim default/job-gpu"),
        ("node-2", "ask for 1 device instead of 2 in request gpu of claim default/job-gpu"),
    ]
    assert lines("pod/job", *words, capsys=capsys)[0].startswith("Pod default/job does not fit")
    assert len(document("train", *words, capsys=capsys)["workloads"]) == 1
    assert main(["explain", "pod/job", "-n", "other", *words]) == 2
    assert "no pod other/job with claims in the files" in capsys.readouterr().err


def test_what_is_decided_otherwise_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In 1.36 a newer generation on another node goes unseen."""
    newer = tmp_path / "newer.yaml"
    newer.write_text(
        "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: newer}, spec: {driver: gpu.example.com,"
        " nodeName: node-9, pool: {name: node-2, generation: 2, resourceSliceCount: 1}}}"
    )
    words = ["-f", *files(tmp_path, "A100"), str(newer)]
    note = "Note: profile k8s-1.36 decides otherwise: fits on 2 of 3 nodes: node-1, node-2"
    assert note in lines(*words, capsys=capsys)
    got = document(*words, "--profile", "k8s-1.36", capsys=capsys)
    assert (got["profile"], got["tier"]) == ("k8s-1.36", "incubating")
    assert got["workloads"][0]["fitsOn"] == ["node-1", "node-2"]
    assert got["workloads"][0]["differs"] == {"profile": "correct", "fitsOn": ["node-1"], "error": None}


def test_an_error_is_explained_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    Path(claim).write_text(Path(claim).read_text().replace("deviceClassName: gpu", "deviceClassName: gold"))
    shown = lines("-f", cluster, claim, capsys=capsys)
    assert shown[0].startswith("Claim default/train cannot be decided on any node")
    assert "could not retrieve device class gold" in shown[1]


def test_nothing_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, _ = files(tmp_path)
    assert lines("-f", cluster, capsys=capsys) == ["Nothing waits for devices in these files"]
    assert document("-f", cluster, capsys=capsys)["workloads"] == []


def test_live_clusters_are_not_read_yet(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train"], ["pod/job", "-n", "ml"], []):
        assert main(["explain", *words]) == 2
        assert "live clusters are not read yet: give the objects with -f FILE" in capsys.readouterr().err


def test_colour_only_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert lines("-f", *files(tmp_path), capsys=capsys)[0].startswith(
        "\033[31mClaim default/train does not fit"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in "".join(lines("-f", *files(tmp_path), capsys=capsys))
