"""`dray kubelet` over CRI, with a small runtime that can go away. Real containers: tests/e2e/test_cri_kubelet.py."""

from __future__ import annotations

import json
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.errors import UnavailableError
from dray.processes.kubelet import CRI, KubeletOptions, run_kubelet
from dray.runtime.tasks import running
from dray.wire.gen import cri_v1_pb2 as pb
from tests.kubelet.runtimes.small_cri import SmallCri
from tests.processes.kubelet_program import options
from tests.waiting import wait_until


def chosen(root: Path) -> KubeletOptions:
    return replace(options(root), runtime=CRI, cri_socket=root / "cri.sock")


def put(root: Path, **spec: Any) -> None:
    containers = [{"name": "a", "image": "here", "securityContext": {"privileged": True}}]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 1, **spec},
    }
    (root / "manifests").mkdir()
    (root / "manifests/p.json").write_text(json.dumps(document))


def container(root: Path) -> dict[str, Any]:
    path = root / "state/status/default_p.json"
    told = json.loads(path.read_text())["status"].get("containerStatuses") if path.exists() else None
    found: dict[str, Any] = told[0] if told else {}
    return found


async def test_a_runtime_that_was_away_costs_no_pod(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    small, socket = SmallCri(), tmp_path / "cri.sock"
    put(tmp_path)
    async with AsyncExitStack() as server:
        await server.enter_async_context(small.serving(socket))
        async with running(run_kubelet(chosen(tmp_path)), name="kubelet", stop_timeout=20):
            await wait_until(lambda: "running" in container(tmp_path).get("state", {}))
            (first,) = small.containers.values()
            assert container(tmp_path)["containerID"] == f"small://{first.id}"
            assert small.requests["run_pod_sandbox"].config.linux.security_context.privileged
            await server.aclose()
            await wait_until(lambda: "the container runtime fails, asked again" in caplog.text)
            first.state, first.exit_code, first.finished_at = pb.CONTAINER_EXITED, 3, time.time_ns()
            await server.enter_async_context(small.serving(socket))
            await wait_until(
                lambda: container(tmp_path).get("restartCount") == 1 and len(small.containers) == 2
            )
            assert container(tmp_path)["lastState"]["terminated"]["exitCode"] == 3
            (tmp_path / "manifests/p.json").unlink()
            await wait_until(lambda: not small.sandboxes)


@pytest.mark.parametrize(("policy", "reason"), [("Never", "ErrImageNeverPull"), ("Always", "ErrImagePull")])
async def test_an_image_that_cannot_be_had_is_told(tmp_path: Path, policy: str, reason: str) -> None:
    small = SmallCri(images=set(), faults={"pull_image": [UnavailableError("no route")] * 9})
    put(tmp_path, containers=[{"name": "a", "image": "far", "imagePullPolicy": policy}])
    async with (
        small.serving(tmp_path / "cri.sock"),
        running(run_kubelet(chosen(tmp_path)), name="kubelet", stop_timeout=20),
    ):
        await wait_until(lambda: reason in str(container(tmp_path).get("state")))
        assert "images import" in container(tmp_path)["state"]["waiting"]["message"]
