"""What `dray kubelet` tells of its pods while it runs them: without an API server, in its log."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from tests.processes.test_kubelet import Pods, kubelet, script
from tests.waiting import wait_until

Line = tuple[str, str, str]


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    (tmp_path / "manifests").mkdir()
    return Pods(tmp_path)


class Told:
    """The events in the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog

    def of(self, pod: str) -> list[Line]:
        """Level, reason and message, in order."""
        return [
            (record.levelname, record.fields["reason"], record.message)  # type: ignore[attr-defined]
            for record in self._caplog.records
            if record.name == "dray.kubelet.events" and record.fields["pod"] == f"default/{pod}"  # type: ignore[attr-defined]
        ]

    async def wait(self, pod: str, reason: str) -> list[Line]:
        await wait_until(lambda: reason in [line[1] for line in self.of(pod)])
        return self.of(pod)

    async def wait_again(self, pods: int) -> None:
        """Until so many pods failed a second time."""
        await wait_until(lambda: sum(times > 1 for times in self._failures().values()) >= pods)

    def _failures(self) -> Counter[str]:
        return Counter(
            record.fields["key"]  # type: ignore[attr-defined]
            for record in self._caplog.records
            if record.message == "will try again"
        )


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


async def test_a_life_is_told_step_by_step(pods: Pods, told: Told) -> None:
    probe = {"exec": {"command": ["true"]}}
    pods.put("p", script("a", "exec sleep 60", livenessProbe=probe, lifecycle={"preStop": probe}))
    async with kubelet(pods):
        await told.wait("p", "Started")
        pods.drop("p")
        lines = await told.wait("p", "Killing")
    asked = "livenessProbe, lifecycle.preStop of container a"
    image = 'Container image "none" already present on machine and can be accessed by the pod'
    assert lines == [
        ("WARNING", "NotSupported", f"This node does not carry out: {asked}"),
        ("INFO", "Pulled", image),
        ("INFO", "Created", "Container created"),
        ("INFO", "Started", "Container started"),
        ("INFO", "Killing", "Stopping container a"),
    ]


async def test_what_goes_wrong_is_told_once(pods: Pods, told: Told) -> None:
    pods.put("crashes", script("a", "exit 1"))
    pods.put("lost", {"name": "a", "command": ["/no/such/program"]})
    pods.put(
        "unmounted",
        script("a", "true"),
        volumes=[{"name": "v", "configMap": {"name": "missing"}}],
    )
    pods.put(
        "unnamed",
        script("a", "true", env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]),
    )
    pods.put("unclaimed", script("a", "true"), resourceClaims=[{"name": "c", "resourceClaimName": "missing"}])
    async with kubelet(pods):
        crashes = await told.wait("crashes", "BackOff")
        await told.wait("lost", "BackOff")
        await told.wait("unmounted", "FailedMount")
        await told.wait("unnamed", "Failed")
        await told.wait("unclaimed", "FailedPrepareDynamicResources")
        await told.wait_again(4)
    lost, unmounted, unnamed = told.of("lost"), told.of("unmounted"), told.of("unnamed")
    assert [line[1] for line in crashes] == ["Pulled", "Created", "Started", "BackOff"]
    assert crashes[-1][2].startswith("Back-off restarting failed container a in pod crashes_default(")
    assert [line[1] for line in lost] == ["Pulled", "Created", "Failed", "BackOff"]
    assert lost[2][2].startswith("Error: cannot start container a: ")
    assert [(line[0], line[1]) for line in unmounted] == [("WARNING", "FailedMount")]
    assert unmounted[0][2] == 'Unable to attach or mount volumes: volume v: configmap "missing" not found'
    assert unnamed[-1] == ("WARNING", "Failed", 'Error: configmap "m" not found')
    assert [(line[0], line[1]) for line in told.of("unclaimed")] == [
        ("WARNING", "FailedPrepareDynamicResources")
    ]
    assert told.of("unclaimed")[0][2].startswith(
        "Failed to prepare dynamic resources: prepare dynamic resources: fetch ResourceClaim missing: "
    )
