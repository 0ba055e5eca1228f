"""`dray taint` and `dray untaint` against a real embedded API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from dray.api.kinds import DEVICE_TAINT_RULES, PODS
from dray.cli.main import main
from dray.client.http import Request
from tests.cli.live_server import LiveServer, fill, live_server
from tests.cli.terminal import Terminal
from tests.client.servers import scripted, status

Capsys = pytest.CaptureFixture[str]


async def rules(server: LiveServer) -> list[str]:
    found = (await server.client.list(DEVICE_TAINT_RULES)).items
    return [f"{one.spec.taint.key}={one.spec.taint.value}:{one.spec.taint.effect}" for one in found]


async def bind(server: LiveServer) -> None:
    target = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "job"},
        "target": {"name": "node-1"},
    }
    path = PODS.path("default", "job", "binding")
    await server.client.raw(Request("POST", path, body=msgspec.json.encode(target)))
    await server.set_status(PODS, "job", {"phase": "Running"})


async def test_a_taint_comes_changes_and_goes(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        told, holder, made = await server.out("taint", "node-1/gpu-0", "fix=fan:NoSchedule")
        assert told == "fix=fan:NoSchedule on 1 device: gpu.example.com/node-1/gpu-0"
        assert holder == "no pod is evicted: what is held now stays with default/job"
        assert made.startswith("devicetaintrule/dray-node-1-gpu-0-fix-noschedule-") and made.endswith(
            " created"
        )
        again = (await server.out("taint", "node-1/gpu-0", "fix=fan:NoSchedule"))[-1]
        assert again == made.replace(" created", " unchanged")
        changed = (await server.out("taint", "node-1/gpu-0", "fix=psu:NoSchedule"))[-1]
        assert changed.endswith(" configured")
        assert await rules(server) == ["fix=psu:NoSchedule"]

        code, _, err = await server.run("untaint", "node-1", "fix")
        assert code == 1
        assert "has the taint fix from rule dray-node-1-gpu-0" in err
        code, _, err = await server.run("untaint", "node-1/gpu-0", "fix=fan:NoSchedule")
        assert code == 1 and await rules(server) == ["fix=psu:NoSchedule"]
        assert (await server.out("untaint", "node-1/gpu-0", "fix", "--dry-run"))[0].endswith(
            "deleted (dry run)"
        )
        assert await rules(server) == ["fix=psu:NoSchedule"]
        assert (await server.out("untaint", "node-1/gpu-0", "fix-"))[0].endswith(" deleted")
        assert await rules(server) == []
        code, _, err = await server.run("untaint", "node-1/gpu-0", "fix")
        assert (code, err.strip()) == (
            1,
            "dray: node-1/gpu-0 has no taint fix; `dray get devices -o wide` shows all taints",
        )
        code, _, err = await server.run("untaint", "node-2/gpu-0", "fans")
        assert code == 1 and "from driver sim.dray.internal" in err


async def test_nobody_is_evicted_unasked(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        assert (await server.out("taint", "node-1/gpu-10", "fix=fan:NoExecute"))[
            1
        ] == "no pod would be evicted"
        await bind(server)
        code, out, err = await server.run("taint", "node-1", "down=now:NoExecute")
        assert code == 2
        assert out.splitlines()[1:] == ["1 pod would be evicted:", "  default/job   (claim default/train)"]
        assert err == "dray: pods would be evicted, and nobody can be asked here: give --yes\n"
        tried = await server.out("taint", "node-1", "down=now:NoExecute", "--dry-run")
        assert tried[-1].endswith(" created (dry run)")
        assert await rules(server) == ["fix=fan:NoExecute"]
        done = await server.out("taint", "node-1/*", "down=now:NoExecute", "--yes")
        assert done[-1] == tried[-1].removesuffix(" (dry run)")
        assert sorted(await rules(server)) == ["down=now:NoExecute", "fix=fan:NoExecute"]


async def test_on_a_terminal_somebody_is_asked(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        await bind(server)
        for key, code, expected in (("n", 1, []), ("y", 0, ["fix=:NoExecute"])):
            terminal = Terminal(
                "taint", "node-1/gpu-0", "fix:NoExecute", "--kubeconfig", str(server.kubeconfig)
            )
            await terminal.wait("default/job   (claim default/train)")
            await terminal.wait("go on? [y/N] ")
            terminal.press(f"{key}\n")
            assert await terminal.end() == code
            assert await rules(server) == expected


async def test_a_server_without_such_rules(tmp_path: Path, capsys: Capsys) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with scripted() as server:
        server.answer(status(404, "NotFound", "the server could not find the requested resource"))
        kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
            f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        )
        words = ["taint", "node-1", "fix:NoExecute", "--kubeconfig", str(kubeconfig)]
        assert await asyncio.to_thread(main, words) == 2
    assert "turn on its feature gates DRADeviceTaints" in capsys.readouterr().err


async def test_words_that_the_server_does_not_take(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        code, _, err = await server.run("taint", "node-1/gpu-0", "Not A Key:NoExecute", "--dry-run")
        assert code == 2 and "spec.taint.key" in err
        code, _, err = await server.run("taint", "node-9", "fix:NoExecute")
        assert code == 1 and "did you mean node-" in err
