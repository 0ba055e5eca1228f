from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import Error
from dray.runtime.traces import first_span_id
from dray.up.place import UpPlace, find_running
from tests.otlp_receiver import Collector, collecting
from tests.waiting import block_until, until

CONFIG = "dray: {doors: {sim: dra}, sim: {devices: [{name: gpu, count: 1}]}}"
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "sim.dray.internal"}}]}
        }
    },
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "traced", "namespace": "default"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "host",
                "command": ["/bin/true"],
                "resources": {"claims": [{"name": "gpu"}]},
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    },
}


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as found:
        yield Path(found)


async def test_one_claim_is_one_trace_through_scheduler_agent_kubelet_and_controllers(
    tmp_path: Path, short_path: Path
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(CONFIG)
    place = UpPlace(short_path / "d")
    words = [sys.executable, "-m", "dray", "up", "--data-dir", str(place.data_dir), "--runtime", "process"]
    with collecting() as collector, (tmp_path / "log").open("wb") as log:
        environ = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        process = subprocess.Popen(
            [*words, "--config", str(config), "--listen", "127.0.0.1:0"], env=environ, stdout=log, stderr=log
        )
        try:
            wait(lambda: find_running(place.data_dir) is not None, process)
            uid = await run_pod(place)
        finally:
            process.terminate()
            assert process.wait(60) == 0, (tmp_path / "log").read_text()
        check(collector, uid)


async def run_pod(place: UpPlace) -> str:
    """The UID of its claim, which is gone when this returns."""
    async with Client(find_access(place.kubeconfig)) as client:
        await client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE)

        async def is_made() -> bool:
            try:
                await client.create(PODS, POD)
            except Error:  # the namespace and its service account are made soon after the start
                return False
            return True

        await until(is_made)
        seen: set[str] = set()

        async def is_over() -> bool:
            claims = await client.list(RESOURCE_CLAIMS)
            seen.update(one.metadata.uid for one in claims.items)
            pod = await client.get(PODS, "traced", namespace="default")
            return pod.status.phase == "Succeeded" and not any(one.status.allocation for one in claims.items)

        await until(is_over)
        assert len(seen) == 1
        return seen.pop()


def wait(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    def look() -> bool:
        assert process.poll() is None
        return holds()

    block_until(look)


def check(collector: Collector, uid: str) -> None:
    spans = collector.of(uid.replace("-", ""))
    # Of a release that met a conflict there is one more, with an error: it is tried again.
    told = {(one.service, one.name) for one in spans if not one.error}
    assert told == {
        ("dray-scheduler", "allocate"),
        ("dray-scheduler", "bind"),
        ("dray-agent", "prepare"),
        ("dray-kubelet", "start"),
        ("dray-kubelet", "release"),
        ("dray-agent", "release"),
        ("dray-controllers", "release"),
    }
    first = f"{first_span_id(uid):016x}"
    assert [one.id for one in spans if not one.parent] == [first]
    assert {one.parent for one in spans if one.id != first} == {first}
    assert all("object has been modified" in one.error for one in spans if one.error)
    assert len({one.id for one in spans}) == len(spans)
