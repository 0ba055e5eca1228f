"""`dray check driver` on Dray's own driver, as a user calls it: started for the check, and on the socket of a running one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.tools import Tools
from tests.e2e.dra_agent import GENERIC, SIM, clean, dra_node, sim_config

CONFIG = sim_config(doors={"sim": "dra", "devices.kubevirt.io/tun": "dra"})
LIVE = (
    "info-type", "info-name", "info-versions", "endpoint", "slices", "prepare-unknown", "unprepare-unknown", "health"
)  # fmt: skip
DRAY = [sys.executable, "-m", "dray"]
AGENT = [
    "--kubeconfig={kubeconfig}",
    "--node-name={node-name}",
    "--kubelet-dir={kubelet-dir}",
    "--device-plugin-dir={device-plugin-dir}",
    "--cdi-dir={cdi-dir}",
    "--state-dir={work-dir}/state",
    "--metrics-address=none",
]


def check(*words: str | Path, before: tuple[str, ...] = ()) -> dict[str, str]:
    """The result of each rule; none may be broken."""
    command = [*before, *DRAY, "check", "driver", "-o", "json", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    results = json.loads(done.stdout)["results"]
    assert [one for one in results if one["result"] not in ("pass", "skipped")] == []
    assert done.returncode == 0, done.stderr[-3000:]
    return {one["rule"]: one["result"] for one in results}


@pytest.mark.parametrize("own_cluster", [False, True], ids=["played API server", "real API server"])
def test_the_agent_keeps_all_rules(
    tools: Tools, own_cluster: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(json.dumps(CONFIG))
    access: list[str] = []
    if own_cluster:
        plane: ControlPlane = request.getfixturevalue("apiserver")
        access = [f"--kubeconfig={plane.kubeconfig}"]
    results = check(*access, "--", *DRAY, "agent", f"--config={config}", *AGENT)
    if own_cluster:
        clean(plane)
    assert {rule for rule, result in results.items() if result != "pass"} == set()
    assert {"prepare", "prepare-concurrent", "slices-return", "health", "cleans-up"} <= results.keys()


def test_a_running_driver_keeps_the_rules_that_are_safe_there(cluster: Cluster, tmp_path: Path) -> None:
    with dra_node(cluster, "agent-dra-check", tmp_path, sim_config()) as node:
        before = node.devices()
        for driver in (SIM, GENERIC):
            socket = f"/var/lib/kubelet/plugins_registry/{driver}-reg.sock"
            access = f"--kubeconfig={cluster.kubeconfig}"
            results = check(access, socket, before=tuple(cluster.enter()))
            assert {results[rule] for rule in LIVE} == {"pass"}
        assert node.devices() == before
