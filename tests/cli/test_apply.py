"""`dray apply` against a real embedded API server."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

import pytest

from dray.api.kinds import CONFIG_MAPS, PODS
from dray.cli.main import main
from dray.client.requests import Selection
from tests.cli.live_server import FLEET, LiveServer, live_server

Capsys = pytest.CaptureFixture[str]
MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: '1'}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: m, image: host}]}\n"


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


async def test_created_configured_unchanged(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        file = written(tmp_path / "a.yaml", MAP)
        assert await server.out("apply", "-f", file, "--dry-run=server") == [
            "configmap/settings created (server dry run)"
        ]
        assert not (
            await server.client.list(CONFIG_MAPS, Selection("default", fields="metadata.name=settings"))
        ).items
        assert await server.out("apply", "-f", file) == ["configmap/settings created"]
        assert await server.out("apply", "-f", file) == ["configmap/settings unchanged"]
        written(tmp_path / "a.yaml", MAP.replace("'1'", "'2'"))
        assert await server.out("apply", "-f", file, "--dry-run", "server") == [
            "configmap/settings configured (server dry run)"
        ]
        assert await server.out("apply", "-f", file) == ["configmap/settings configured"]
        found = await server.client.get(CONFIG_MAPS, "settings", namespace="default")
        assert found.data == {"a": "2"}
        assert {one.manager for one in found.metadata.managed_fields} == {"dray"}


async def test_what_others_own_is_left_to_them(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await server.client.apply(
            CONFIG_MAPS,
            {"metadata": {"name": "settings"}, "data": {"a": "mine"}},
            manager="other",
            namespace="default",
        )
        file = written(tmp_path / "a.yaml", MAP)
        code, out, err = await server.run("apply", "-f", file)
        assert (code, out) == (1, "")
        assert err.startswith(f"dray: {file}:1: ") and '"other"' in err and ".data.a" in err
        assert err.endswith("; --force-conflicts takes these fields over\n")
        assert await server.out("apply", "-f", file, "--force-conflicts") == ["configmap/settings configured"]


async def test_every_fault_is_told_and_nothing_written(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        file = written(
            tmp_path / "bad.yaml",
            POD + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: [], extra: 1}\n"
            "---\napiVersion: v1\nkind: Pood\nmetadata: {name: x}\n",
        )
        code, out, err = await server.run("apply", "-f", file)
        assert (code, out) == (2, "")
        head, first, second = err.splitlines()
        assert head == "dray: 2 faults:"
        assert first.startswith(f"  {file}:6: ") and "extra" in first
        assert second.startswith(f'  {file}:11: the server has no kind "Pood"') and "v1 Pod?" in second
        assert not (await server.client.list(PODS)).items


async def test_a_namespace_and_what_is_in_it_come_together(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        folder = tmp_path / "objects"
        folder.mkdir()
        written(folder / "1.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: ml}}\n")
        written(
            folder / "2.json",
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ml"}}',
        )
        written(folder / "notes.txt", "not an object")
        assert await server.out("apply", "-f", str(folder)) == ["namespace/ml created", "configmap/c created"]
        lost = written(tmp_path / "lost.yaml", MAP)
        code, _, err = await server.run("apply", "-f", lost, "-n", "nowhere")
        assert code == 2 and 'namespaces "nowhere" not found' in err
        assert await server.out("apply", "-f", lost, "-n", "ml") == ["configmap/settings created"]
        code, _, err = await server.run("apply", "-f", str(folder / "2.json"), "-n", "default")
        assert code == 2 and "metadata.namespace: is 'ml', and -n says 'default'" in err


async def test_a_kind_and_its_first_object_come_together(tmp_path: Path, capsys: Capsys) -> None:
    definition = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {kind: Boat, listKind: BoatList, plural: boats, singular: boat, shortNames: [bo]}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
{apiVersion: example.com/v1, kind: Boat, metadata: {name: ark}}
"""
    async with live_server(tmp_path, capsys) as server:
        out = await server.out("apply", "-f", written(tmp_path / "boats.yaml", definition))
        assert out[1] == "boat.example.com/ark created"
        assert (await server.out("get", "bo"))[1].split()[0] == "ark"


async def test_wait_for_pods(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        file = written(tmp_path / "p.yaml", POD)

        async def applied(status: dict[str, object]) -> tuple[int, str, str]:
            asking = asyncio.create_task(server.run("apply", "-f", file, "--wait"))
            await _once_there(server)
            await server.set_status(PODS, "p", status)
            return await asking

        ready = {"type": "Ready", "status": "True"}
        code, out, _ = await applied({"phase": "Running", "conditions": [ready]})
        assert (code, out) == (0, "pod/p created\n")
        code, _, err = await applied(
            status={"phase": "Failed", "message": "no such device", "conditions": []}
        )
        assert (code, err) == (1, "dray: pod/p failed: no such device\n")


async def _once_there(server: LiveServer) -> None:
    async with asyncio.timeout(60):
        while not (await server.client.list(PODS)).items:
            await asyncio.sleep(0.01)


def test_files_that_are_no_objects(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    good = written(tmp_path / "good.yaml", FLEET)
    cases = {
        (): "name what to apply: -f FILE, -f DIRECTORY or -f -",
        (
            "-f",
            str(tmp_path / "empty"),
        ): f"{tmp_path}/empty: no file there ends in .yaml, .yml, .json; -R looks below it too",
        ("-f", str(tmp_path / "none.yaml")): f"cannot read {tmp_path}/none.yaml: No such file or directory",
        ("-f", good, "--timeout", "soon"): "--timeout",
    }
    for words, text in cases.items():
        assert main(["apply", *words, "--kubeconfig", str(tmp_path / "nowhere")]) == 2
        assert text in capsys.readouterr().err
    given = b"{kind: Pod, metadata: {}}\n---\n{apiVersion: v1, metadata: {name: b}}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert main(["apply", "-f", "-", "--kubeconfig", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "dray: 3 faults:",
        "  <stdin>:1: apiVersion: is not set",
        "  <stdin>:1: metadata.name: is not set, and an object is known by its name",
        "  <stdin>:3: kind: is not set",
    ]
