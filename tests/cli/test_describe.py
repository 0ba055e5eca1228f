"""`dray describe` against a real embedded API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.kinds import PODS, RESOURCE_CLAIMS
from tests.cli.live_server import REFUSED, LiveServer, fill, live_server

Capsys = pytest.CaptureFixture[str]


async def described(server: LiveServer, *words: str) -> list[str]:
    return [" ".join(line.split()) for line in await server.out("describe", *words)]


async def test_a_node_shows_its_devices_and_resources(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        lines = await described(server, "node", "node-1")
        assert "Status: Ready" in lines
        place = lines.index("Devices of gpu.example.com (3, 1 held, 1 not healthy):")
        assert lines[place + 1 : place + 5] == [
            "DEVICE PRODUCT HEALTH NUMA PCIE ROOT HOLDER",
            "gpu-0 A100 healthy 1 - default/job",
            "gpu-2 H100 unhealthy - - free",
            "gpu-10 H100 healthy - - free",
        ]
        assert "example.com/tape 4 3 0" in lines
        hollow = await described(server, "node/node-2")
        assert "Hollow: yes: simulated, runs no containers" in hollow


async def test_a_pod_shows_what_each_container_got_and_why_it_waits(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        got = {"name": "example.com/tape", "resources": [{"resourceID": "tape-7"}]}
        status = {"name": "main", "image": "host", "imageID": "", "ready": True, "restartCount": 0}
        status |= {"state": {"running": {}}, "allocatedResourcesStatus": [got]}
        await server.set_status(PODS, "job", {"containerStatuses": [status]})
        lines = await described(server, "pod", "job")
        assert "main host Running 0 gpu.example.com/node-1/gpu-0, example.com/tape: tape-7" in lines
        assert "c train by name reserved gpu-0" in lines

        lines = await described(server, "pod", "waits")
        assert f"Why: {REFUSED}" in lines
        place = lines.index("What `dray explain` says:")
        assert lines[place + 1].startswith("Pod default/waits does not fit on any of 2 nodes")
        assert "`dray explain pod/waits -n default` says all" in lines
        short = await described(server, "pod", "waits", "--no-explain")
        assert "What `dray explain` says:" not in short and f"Why: {REFUSED}" in short


async def test_a_claim_request_by_request(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        ready = {"type": "Ready", "status": "True", "reason": "Prepared", "message": "all well"}
        ready |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        device = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0", "conditions": [ready]}
        await server.set_status(RESOURCE_CLAIMS, "train", {"devices": [device]})
        lines = await described(server, "claim", "train")
        assert {"State: reserved", "Node: node-1", "gpu gpu 1 gpu-0 -"} <= set(lines)
        assert "gpu gpu.example.com/node-1/gpu-0 whole" in lines
        assert "gpu.example.com/node-1/gpu-0 Ready=True all well" in lines
        lonely = await described(server, "claim", "lonely")
        assert {"State: pending", "Reserved for: nobody", "waits"} <= set(lonely)


async def test_a_device_has_a_story(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        claim = await server.client.get(RESOURCE_CLAIMS, "train", namespace="default")
        for name, message, kind, uid in (
            ("one", "prepared", "ResourceClaim", claim.metadata.uid),
            ("two", "device gpu.example.com/node-1/gpu-0 is well again", "Pod", ""),
            ("three", "device gpu.example.com/node-1/gpu-2 is broken", "Pod", ""),
        ):
            about = f"{{kind: {kind}, name: train, namespace: default, uid: '{uid}'}}"
            await server.add(
                f"{{apiVersion: v1, kind: Event, metadata: {{name: {name}}}, involvedObject: {about},"
                f" reason: R, type: Normal, message: '{message}'}}"
            )
        lines = await described(server, "device", "gpu.example.com/node-1/gpu-0")
        assert {"Health: healthy", "default/train default/job DRA whole", "model A100"} <= set(lines)
        story = lines[lines.index("Story:") :]
        assert len(story) == 4 and not any("gpu-2" in line for line in story)


async def test_classes_slices_and_other_kinds(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        assert "default train reserved gpu-0" in await described(server, "class", "gpu")
        assert "Pool: node-1: 1 of 1 slices are there" in await described(server, "slice", "node-1-gpus")
        namespace = await described(server, "ns", "default")
        assert "kind: Namespace" in namespace and not any("managedFields" in line for line in namespace)
        code, _, err = await server.run("describe", "node", "nod-1")
        assert (code, err) == (1, "dray: no node \"nod-1\"; did you mean 'node-1'?\n")
