"""Waiting for pods that are late and for objects that do not go, at a real embedded API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.kinds import PODS
from dray.cli.cluster import Asked
from dray.cli.waiting import wait_gone, wait_pods
from dray.errors import UnavailableError
from tests.cli.live_server import REFUSED, fill, live_server

Capsys = pytest.CaptureFixture[str]


async def test_who_is_late_is_told_with_the_reason(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        said: list[str] = []
        asked = Asked(server.client, "default", say=said.append)
        with pytest.raises(UnavailableError) as late:
            await wait_pods(asked, [("default", "waits")], 0.1)
        hint = "`dray explain pod/waits -n default` tells more"
        assert str(late.value) == f"pod/waits is not ready after 0.1 s: {REFUSED}; {hint}"
        assert said[0] == f"waiting for pod/waits: {REFUSED}"


async def test_a_pod_that_its_node_does_not_end(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await server.add(
            "{apiVersion: v1, kind: Pod, metadata: {name: far},"
            " spec: {nodeName: node-1, containers: [{name: m, image: host}]}}"
        )
        uid = (await server.client.get(PODS, "far", namespace="default")).metadata.uid
        asked = Asked(server.client, "default")
        assert await server.out("delete", "pod", "far", "--no-wait") == ["pod/far deleted"]
        with pytest.raises(UnavailableError, match="its node has not ended it; --force does not wait"):
            await wait_gone(asked, PODS, ("default", "far"), uid, 0.1)
        await wait_gone(asked, PODS, ("default", "far"), "that of another", 0.1)
        assert await server.out("delete", "pod/far", "--force") == ["pod/far deleted"]
        await wait_gone(asked, PODS, ("default", "far"), uid, 0.1)
