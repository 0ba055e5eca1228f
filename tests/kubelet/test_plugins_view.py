"""`/plugins` of a real kubelet, and `dray get plugins`: device plugins and DRA drivers that come, go and are refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import RESOURCE_SLICES
from dray.cli.main import main
from dray.cli.views.plugins import Plugins, ask_page, look
from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.kubelet.runtimes.shim import start_time
from dray.runtime.pages import Page, Readers, serve_pages
from dray.up.place import RunningUp, UpPlace
from tests.interrupts import interruptible
from tests.kubelet.plugins.real_plugin import Plugin
from tests.processes.kubelet_claims import announced, driver_of, registered
from tests.processes.kubelet_node import NODE, TAPE, Node, listing, node_in
from tests.waiting import PATIENCE


async def told(node: Node) -> Plugins:
    address = node.told.words["metrics"]["address"].removesuffix("/metrics")
    return await asyncio.to_thread(ask_page, address)


async def wait_state(node: Node, name: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            for one in (await told(node)).plugins:
                if (one["name"], one["state"]) == (name, state):
                    return dict(one)
            await asyncio.sleep(0.02)


async def test_a_device_plugin_from_its_registration_to_its_grace(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        assert (await told(node)).plugins == ()
        async with node.plugged(Plugin(first=listing(["a", "b"], ["c"]))):
            await node.wait_counts("2/3")
            one = await wait_state(node, TAPE, "connected")
            assert (one["type"], one["versions"]) == ("device plugin", ["v1beta1"])
            assert (one["healthy"], one["unhealthy"], one["graceLeft"]) == (2, 1, None)
            assert one["socket"] == str(node.plugins / "tape.sock") and one["lastMessage"]
        node.clock.stop()
        one = await wait_state(node, TAPE, "gone")
        assert (one["healthy"], one["unhealthy"]) == (0, 3)
        node.clock.skip(100)
        assert 190 < (await wait_state(node, TAPE, "gone"))["graceLeft"] <= 200
        node.clock.skip(300)
        assert (await told(node)).plugins == ()


async def test_a_resource_from_before_a_restart_waits_for_its_plugin(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        async with node.plugged(Plugin()):
            await node.wait_counts("2/2")
        await node.restart()
        one = await wait_state(node, TAPE, "gone")
        assert one["socket"] is None and 0 < one["graceLeft"] <= 300
        async with node.plugged(Plugin()):
            await wait_state(node, TAPE, "connected")
            assert len((await told(node)).plugins) == 1


async def test_drivers_and_who_was_refused(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        driver, other = driver_of(node), driver_of(node, "b.io")
        async with registered(node, driver):
            one = await wait_state(node, "a.io", "connected")
            assert (one["type"], one["healthy"]) == ("DRA driver", None)
            assert one["socket"] == str(driver.path) and "v1.DRAPlugin" in one["versions"]
            other.versions = ("v0.Unheard",)
            async with other.serving(), announced(node, other):
                one = await wait_state(node, "b.io", "refused")
                assert "none of services supported" in one["note"]
            node.clock.skip(301)
            assert [one["name"] for one in (await told(node)).plugins] == ["a.io"]
        async with asyncio.timeout(PATIENCE):
            while any(one["name"] == "a.io" for one in (await told(node)).plugins):
                await asyncio.sleep(0.02)


async def test_by_the_directories_of_any_kubelet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with node_in(tmp_path) as node:
        driver = driver_of(node)
        async with registered(node, driver), node.plugged(Plugin()):
            await node.wait_counts("2/2")
            found = await look(tmp_path / "kubelet")
            shown = {(one["type"], one["name"]): one for one in found.plugins}
            assert shown["DRA driver", "a.io"]["state"] == "listens"
            assert shown["device plugin", TAPE]["healthy"] == 2
            assert shown["device plugin", "?"]["socket"] == str(node.plugins / "tape.sock")
            words = ["get", "plugins", "--kubelet-dir", str(tmp_path / "kubelet")]
            assert await asyncio.to_thread(main, words) == 0
            out, err = capsys.readouterr()
            assert out.startswith("TYPE ") and "a.io" in out
            assert "does not tell which socket serves a resource" in err
            assert await asyncio.to_thread(main, [*words, "-o", "json"]) == 0
            assert len(json.loads(capsys.readouterr().out)["plugins"]) == 3


def test_no_kubelet_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "plugins", "--kubelet-dir", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == (
        f"dray: no kubelet directory {tmp_path}/none; give another one with --kubelet-dir D\n"
    )
    assert main(["get", "plugins", "--data-dir", str(tmp_path)]) == 1
    assert f"no `dray up` runs on {tmp_path}" in capsys.readouterr().err


async def test_of_a_running_dray_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The devices of drivers are counted by the slices of its node."""
    async with node_in(tmp_path) as node:
        pid = os.getpid()
        UpPlace(tmp_path).write(
            RunningUp(
                pid=pid,
                start_time=start_time(pid) or 0,
                version="1",
                server="",
                kubeconfig=str(tmp_path / "kubeconfig"),
                node=NODE,
                metrics={"kubelet": node.told.words["metrics"]["address"].removesuffix("/metrics")},
            )
        )
        words = ["get", "plugins", "--data-dir", str(tmp_path)]
        assert await asyncio.to_thread(main, words) == 0
        assert "No plugin is registered with the kubelet\n" in capsys.readouterr().err
        async with registered(node, driver_of(node)):
            pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
            ill = {"name": "e", "taints": [{"key": "a.io/unhealthy", "effect": "NoSchedule"}]}
            spec = {"driver": "a.io", "nodeName": NODE, "pool": pool, "devices": [{"name": "d"}, ill]}
            await node.server.add(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": spec})
            assert await asyncio.to_thread(main, words) == 0
            out = capsys.readouterr().out
            assert out.splitlines()[1].split()[:4] == ["DRA", "driver", "a.io", "connected"]
            assert out.splitlines()[1].split()[-5:-1] == ["1", "1", "-", "-"]
            await _watched(words)
    assert await asyncio.to_thread(main, words) == 3
    assert "is the kubelet up?" in capsys.readouterr().err


async def _watched(words: list[str]) -> None:
    with interruptible():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dray", *words, "--watch"), stdout=asyncio.subprocess.PIPE
        )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        await process.stdout.readline()
        assert b"a.io" in await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_a_kubelet_that_wants_a_token_is_asked_with_it(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("a-token-of-sixteen\n")
    (broken := tmp_path / "broken").write_text("two\nlines")
    pages = {"/plugins": lambda: Page(200, "application/json", b'{"plugins":[]}')}
    async with serve_pages(pages, host="127.0.0.1", readers=Readers(token_file=file)) as port:
        address = f"http://127.0.0.1:{port}"
        assert (await asyncio.to_thread(ask_page, address, file)).plugins == ()
        (other := tmp_path / "other").write_text("wrong")
        for given in (None, other):
            with pytest.raises(DeniedError, match="give the file with --metrics-token-file"):
                await asyncio.to_thread(ask_page, address, given)
        with pytest.raises(InvalidError, match="a token is one line"):
            await asyncio.to_thread(ask_page, address, broken)
        with pytest.raises(NotFoundError, match="read the token in"):
            await asyncio.to_thread(ask_page, address, tmp_path / "none")
