"""`dray explain` on files: the funnel, near misses, changes, pods, and resources of device plugins."""

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
        "Taints:",
        f"  hot:NoSchedule keeps 1 device from {place}",
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
    assert main(["explain", "pod/job", "-n", "other", *words]) == 1
    assert "no Pod other/job in the files" in capsys.readouterr().err


def test_what_is_decided_otherwise_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In 1.36 a newer generation on another node goes unseen."""
    newer = tmp_path / "newer.yaml"
    newer.write_text(
        "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: newer}, spec: {driver: gpu.example.com,"
        " nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: gone, operator: Exists}]}]},"
        " pool: {name: node-2, generation: 2, resourceSliceCount: 1}}}"
    )
    words = ["-f", *files(tmp_path, "A100"), str(newer)]
    note = "Note: profile k8s-1.36 decides otherwise: fits on 2 of 2 nodes: node-1, node-2"
    assert f"{note} (because of own_slices_suffice)" in lines(*words, capsys=capsys)
    got = document(*words, "--profile", "k8s-1.36", capsys=capsys)
    assert (got["profile"], got["tier"]) == ("k8s-1.36", "incubating")
    assert got["workloads"][0]["fitsOn"] == ["node-1", "node-2"]
    assert got["workloads"][0]["differs"] == {
        "profile": "correct",
        "fitsOn": ["node-1"],
        "error": None,
        "causes": ["own_slices_suffice"],
    }


def test_an_error_is_explained_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    Path(claim).write_text(Path(claim).read_text().replace("deviceClassName: gpu", "deviceClassName: gold"))
    shown = lines("-f", cluster, claim, capsys=capsys)
    assert shown[0].startswith("Claim default/train cannot be decided on any node")
    assert "could not retrieve device class gold" in shown[1]


def test_a_selector_that_fails_is_told_with_its_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, claim = files(tmp_path)
    text = Path(claim).read_text()
    Path(claim).write_text(text.replace(MODEL, MODEL.replace("model", "colour")))
    assert Path(claim).read_text() != text
    start = "claim default/train, request gpu: selector #0 on device "
    assert lines("-f", cluster, claim, capsys=capsys)[1].strip().startswith(start)
    assert main(["allocate", "-f", cluster, claim]) == 1
    assert capsys.readouterr().err.startswith(f"dray: {start}")
    assert main(["simulate", "-f", cluster, claim, "--claims", "2"]) == 1
    assert "selector #0 on device " in capsys.readouterr().err


def test_names_that_nobody_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, claim = files(tmp_path)
    good = Path(claim).read_text()
    Path(claim).write_text(good.replace("kind: ResourceClaim", "kind: ResourceClaims"))
    assert main(["explain", "-f", cluster, claim, "-o", "json"]) == 0
    shown = capsys.readouterr()
    note = "ResourceClaims of resource.k8s.io/v1 is not read; did you mean ResourceClaim?"
    assert note in shown.err and note in json.loads(shown.out)["notes"][0]
    Path(claim).write_text(good.replace("deviceClassName: gpu", "deviceClassName: gpu\n        cuont: 3"))
    assert main(["explain", "-f", cluster, claim]) == 2
    assert capsys.readouterr().err == (
        f"dray: {claim}:1: ResourceClaim train: spec.devices.requests[0].exactly.cuont: "
        'unknown field: did you mean "count"?\n'
    )
    assert main(["cel", "true", "-f", cluster, claim]) == 0


RULE = """\
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: r}
spec: {deviceSelector: {pool: node-2}, taint: {key: k, effect: NoSchedule}}
"""


def test_taint_rules_count_where_their_gate_is_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = tmp_path / "rule.yaml"
    rule.write_text(RULE)
    words = ["-f", *files(tmp_path, "A100"), str(rule)]
    shown = lines(*words, capsys=capsys)
    assert shown[0].startswith("Claim default/train fits on 1 of 2 nodes: node-1")
    assert shown[1].endswith("fits on 2 of 2 nodes: node-1, node-2 (because of DRADeviceTaintRules)")
    assert main(["explain", *words, "--profile", "k8s-1.36"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Claim default/train fits on 2 of 2 nodes")
    assert err.startswith(
        "dray: note: DeviceTaintRules in the files do not count (1 found): DRADeviceTaintRules is off"
    )
    for more in (
        ["--profile", "k8s-1.37"],
        ["--profile", "k8s-1.36", "--feature-gates", "DRADeviceTaintRules=true"],
    ):
        assert lines(*words, *more, capsys=capsys)[0].startswith("Claim default/train fits on 1 of 2 nodes")


def test_nothing_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, _ = files(tmp_path)
    assert lines("-f", cluster, capsys=capsys) == ["Nothing waits for devices in the files"]
    assert document("-f", cluster, capsys=capsys)["workloads"] == []


WIDGETS = """\
{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {capacity: {example.com/widget: 4}, allocatable: {example.com/widget: 3}}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-2}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-3}, spec: {taints: [{key: own, effect: NoSchedule}]}, status: {allocatable: {example.com/widget: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: has}, spec: {nodeName: node-1, containers: [{name: c, image: i, resources: {limits: {example.com/widget: 2}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: wants}, spec: {containers: [{name: c, image: i, resources: {limits: {example.com/widget: 2}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: back}
spec: {nodeName: node-1, containers: [{name: c, image: i, resources: {limits: {example.com/widget: 1}}}]}
status: {phase: Failed, reason: UnexpectedAdmissionError, message: "Pod was rejected: no devices"}
"""


def test_resources_of_device_plugins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "widgets.yaml"
    path.write_text(WIDGETS)
    assert lines("-f", str(path), capsys=capsys) == [
        "Pod default/wants does not fit on any of 3 nodes (profile correct, experimental allocator)",
        "",
        "NODES    RESOURCE             WANTS   ALLOCATABLE    IN USE   FREE   SHORT BY",
        "node-1   example.com/widget   2       3 (of 4)       2        1      1",
        "node-2   example.com/widget   2       never had it                   2",
        "node-3   example.com/widget   2       9              0        9      -",
        "",
        "In use:",
        "  example.com/widget on node-1: pod default/has (2)",
        "",
        "What would make it fit:",
        "  on node-1: free 1 example.com/widget: end pod default/has",
        "  on node-1: repair devices: of 4 example.com/widget 1 cannot be given",
        "  on node-1: ask for 1 example.com/widget instead of 2",
        "",
        "node-3: the pod does not tolerate the node's taint own:NoSchedule",
        "",
        "Not admitted by their kubelets (`dray explain pod/NAME` says why): default/back",
    ]
    got = document("-f", str(path), capsys=capsys)
    assert (got["server"], got["notAdmitted"]) == (None, ["default/back"])
    (wants,) = got["workloads"]
    assert wants["resources"][0] == {
        "node": "node-1",
        "resource": "example.com/widget",
        "wanted": "2",
        "capacity": "4",
        "allocatable": "3",
        "used": "2",
        "free": "1",
        "short": "1",
        "deviceClass": None,
        "pods": [{"name": "default/has", "amount": "2"}],
    }
    assert wants["resourceChanges"][2] == {
        "node": "node-1",
        "text": "ask for 1 example.com/widget instead of 2",
    }


def test_a_pod_that_was_sent_back_or_wants_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "widgets.yaml"
    path.write_text(
        WIDGETS + "---\n{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: []}}"
    )
    assert lines("pod/back", "-f", str(path), capsys=capsys) == [
        "Pod default/back was not admitted by the kubelet of node-1 (profile correct, experimental allocator)",
        "  UnexpectedAdmissionError: Pod was rejected: no devices",
        "",
        "NODES    RESOURCE             WANTS   ALLOCATABLE   IN USE   FREE   SHORT BY",
        "node-1   example.com/widget   1       3 (of 4)      2        1      -",
    ]
    assert document("pod/back", "-f", str(path), capsys=capsys)["workloads"][0]["notAdmitted"].startswith(
        "Unexp"
    )
    assert lines("pod/has", "-f", str(path), capsys=capsys)[0].startswith(
        "Pod default/has has its devices already"
    )
    assert main(["explain", "pod/plain", "-f", str(path)]) == 2
    assert "pod default/plain asks for no devices" in capsys.readouterr().err
    assert main(["allocate", "pod/wants", "-f", str(path)]) == 1
    assert "node-1: short of 1 example.com/widget: 3 allocatable, 2 in use" in capsys.readouterr().out


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
