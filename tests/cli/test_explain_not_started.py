"""A pod that has its devices and does not start: `dray explain` says what its kubelet said last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.api.kinds import EVENTS, PODS
from dray.client import requests
from tests.cli.live_server import fill, live_server


async def test_the_newest_warning_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        job = await server.client.get(PODS, "job", namespace="default")
        binding = {"metadata": {"name": "job"}, "target": {"kind": "Node", "name": "node-1"}}
        request = requests.create_sub(PODS, "job", "binding", binding, namespace="default")
        await server.client.raw(request)
        assert "has its devices already" in (await server.out("explain", "pod/job"))[0]
        about = {"kind": "Pod", "name": "job", "namespace": "default", "uid": job.metadata.uid}
        for number, (kind, text) in enumerate([("Warning", "gpu-0 is in use"), ("Normal", "all is well")]):
            event = {
                "metadata": {"name": f"job.{number}"},
                "involvedObject": about,
                "type": kind,
                "reason": "FailedPrepareDynamicResources",
                "message": text,
                "lastTimestamp": f"2026-01-01T10:00:0{number}Z",
            }
            await server.client.create(EVENTS, event, namespace="default")
        head, said, *_ = await server.out("explain", "pod/job")
        assert head.startswith("Pod default/job has its devices, but does not start on node-1 (profile")
        assert said == "  FailedPrepareDynamicResources: gpu-0 is in use"
        document = json.loads("\n".join(await server.out("explain", "-o", "json")))
        told = {one["name"]: one["notStarted"] for one in document["workloads"]}
        assert told == {
            "default/job": "FailedPrepareDynamicResources: gpu-0 is in use",
            "default/waits": None,
        }


async def test_a_program_that_ends_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        binding = {"metadata": {"name": "job"}, "target": {"kind": "Node", "name": "node-1"}}
        await server.client.raw(requests.create_sub(PODS, "job", "binding", binding, namespace="default"))
        loops = {
            "name": "main",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}},
        }
        status = {"status": {"phase": "Running", "containerStatuses": [loops]}}
        await server.client.patch(PODS, "job", status, namespace="default", subresource="status")
        head, said, *_ = await server.out("explain", "pod/job")
        assert head.startswith(
            "Pod default/job has its devices, but does not keep running on node-1 (profile"
        )
        assert said.startswith("  CrashLoopBackOff: the program of container main ends with exit code 1; ")
        assert said.endswith("`dray logs job -n default -p` shows why")
