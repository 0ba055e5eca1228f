"""`dray doctor` where a real kubelet, containerd and API server run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dray.testing.kubernetes.cluster import Cluster


def _doctor(cluster: Cluster, *more: str) -> tuple[int, dict[str, Any]]:
    words = [
        "--node",
        "--node-name",
        cluster.node_name,
        "--kubeconfig",
        str(cluster.kubeconfig),
        "-o",
        "json",
    ]
    words += ["--containerd-config", str(cluster.directory / "containerd.toml"), *more]
    done = subprocess.run(
        [*cluster.enter(), sys.executable, "-m", "dray", "doctor", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_real_node_is_found_well(cluster: Cluster, tmp_path: Path) -> None:
    code, found = _doctor(cluster, "--bundle", str(tmp_path / "b.tar.gz"))
    by_check = {one["check"]: one for one in found["findings"]}
    assert [one for one in found["findings"] if one["level"] == "fault"] == []
    assert code == 0
    assert {name for name, one in by_check.items() if one["level"] == "ok"} >= {
        "kubelet-reachable",
        "kubelet-registration",
        "runtime",
        "cdi-enabled",
        "cdi-directories",
        "api-version",
        "dra-served",
        "version-skew",
        "clock",
        "rights",
    }
    assert "containerd 2." in by_check["runtime"]["what"].replace(" v", " ")
    assert (tmp_path / "b.tar.gz").stat().st_size > 1000


def test_a_kubelet_that_is_away_is_a_fault(cluster: Cluster) -> None:
    cluster.stop_kubelet()
    try:
        code, found = _doctor(cluster)
    finally:
        cluster.start_kubelet()
        cluster.wait_node()
    faults = {one["check"] for one in found["findings"] if one["level"] == "fault"}
    assert code == 1
    assert "kubelet-reachable" in faults
