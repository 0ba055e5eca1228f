"""`dray delete` against a real embedded API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.kinds import CONFIG_MAPS, RESOURCE_CLAIMS
from dray.cli.main import main
from tests.cli.live_server import FLEET, fill, live_server

Capsys = pytest.CaptureFixture[str]


async def test_by_name_by_label_and_by_file(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await server.add(FLEET)
        code, out, err = await server.run("delete", "pod", "job", "wait", "--force")
        assert (code, out) == (1, "pod/job deleted\n")
        assert err == "dray: no pod \"wait\" in namespace default; did you mean 'waits'?\n"
        await server.add("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {of: test}}}")
        await server.add("{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
        assert await server.out("delete", "cm", "-l", "of=test") == ["configmap/a deleted"]
        assert "b" in {one.metadata.name for one in (await server.client.list(CONFIG_MAPS)).items}
        file = tmp_path / "fleet.yaml"
        file.write_text(FLEET)
        code, out, err = await server.run("delete", "-f", str(file))
        assert code == 1 and out.splitlines()[0] == "pod/waits deleted" and "node/node-1 deleted" in out
        assert err == f'dray: no pod "job" in namespace default ({file}:46); nothing to delete\n'
        code, out, err = await server.run("delete", "-f", str(file), "--ignore-not-found")
        assert (code, out, err) == (0, "", "")


async def test_it_waits_and_says_what_holds_an_object_up(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        change = {"metadata": {"finalizers": ["example.com/keep"]}}
        await server.client.patch(RESOURCE_CLAIMS, "lonely", change, namespace="default")
        code, out, err = await server.run("delete", "claim", "lonely", "--timeout", "1s")
        assert (code, out) == (3, "resourceclaim.resource.k8s.io/lonely deleted\n")
        assert err.startswith(
            "dray: resourceclaim/lonely is still there after 1 s: its finalizers are example.com/keep"
        )
        assert await server.out("delete", "claim", "lonely", "--no-wait") == [
            "resourceclaim.resource.k8s.io/lonely deleted"
        ]


def test_what_to_delete_must_be_said(tmp_path: Path, capsys: Capsys) -> None:
    for words in ([], ["pod", "x", "-f", "y"]):
        assert main(["delete", *words]) == 2
        assert capsys.readouterr().err == "dray: name what to delete: -f FILE, or KIND NAME…\n"


async def test_not_all_by_accident(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        code, _, err = await server.run("delete", "pods")
        assert (code, err) == (2, "dray: name which pods, or give -l LABEL=VALUE or --all\n")
        code, _, err = await server.run("delete", "devices", "gpu-0")
        assert (code, err) == (2, "dray: devices cannot be deleted: their drivers make them\n")
