"""A driver as its own program beside our kubelet and an API server: pods get its devices through both doors."""

from __future__ import annotations

import asyncio
import copy
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from dray.api.kinds import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.testing.check.api_server import Place
from tests.processes.kubelet_node import NODE, Node, container, node_in
from tests.sdk.example_lamps import build_lamps
from tests.waiting import PATIENCE

LAMP, DRIVER = "example.com/lamp", "lamp.example.com"
EXAMPLE = "02-lamp-with-config"


async def start(node: Node, root: Path) -> asyncio.subprocess.Process:
    """The example, which serves soon. What it says is in `lamp.log`."""
    places = {
        "--host-root": root,
        "--kubelet-dir": node.root / "kubelet",
        "--device-plugin-dir": node.plugins,
        "--cdi-dir": node.root / "cdi",
        "--kubeconfig": node.root / "kubeconfig",
        "--node-name": NODE,
        "--metrics-address": "127.0.0.1:0",
    }
    words = [str(word) for pair in places.items() for word in pair]
    program = str(Path("examples", EXAMPLE, "lamp.py"))
    with (node.root / "lamp.log").open("ab") as out:
        return await asyncio.create_subprocess_exec(
            sys.executable, program, *words, stdout=out, stderr=asyncio.subprocess.STDOUT
        )


@asynccontextmanager
async def lamps(node: Node, root: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """It serves, and the kubelet has its devices. Killed when left, if it still runs."""
    process = await start(node, root)
    try:
        await node.wait_counts("2/2", LAMP)
        await node.wait(node.server.slices, "slices")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def end(process: asyncio.subprocess.Process, number: signal.Signals) -> int:
    process.send_signal(number)
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


async def claim_pod(node: Node, name: str, device: str, **parameters: Any) -> None:
    """A pod whose claim was given that device; what a scheduler would do is done here."""
    spec = {"devices": {"requests": [{"name": "lamp", "exactly": {"deviceClassName": DRIVER}}]}}
    await node.server.add(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": spec})
    listed = [{"name": "light", "resourceClaimName": name}]
    used = container(resources={"claims": [{"name": "light"}]})
    pod = await node.run(name, used, resourceClaims=listed, nodeName="")
    claim = copy.deepcopy(node.server.find(RESOURCE_CLAIMS, name))
    opaque = {"driver": DRIVER, "parameters": {"kind": "LampConfig", **parameters}}
    claim["status"] = {
        "allocation": {
            "devices": {
                "results": [{"request": "lamp", "driver": DRIVER, "pool": NODE, "device": device}],
                "config": [{"source": "FromClaim", "requests": ["lamp"], "opaque": opaque}],
            }
        },
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
    }
    await node.server.update(Place(RESOURCE_CLAIMS, "default", name, "status"), claim)
    bound = copy.deepcopy(node.server.find(PODS, name))
    bound["spec"]["nodeName"] = NODE
    await node.server.put(PODS, bound)


def taints(node: Node) -> dict[str, list[str]]:
    (slice_name,) = node.server.slices()
    devices = node.server.find(RESOURCE_SLICES, slice_name)["spec"]["devices"]
    return {one["name"]: [taint["key"] for taint in one.get("taints", ())] for one in devices}


def messages(node: Node) -> str:
    return "\n".join(
        str(one.get("message")) for (kind, _, _), one in node.server.objects.items() if kind == EVENTS.plural
    )


async def metrics(log: Path) -> str:
    found = re.search(r"http://[^ ]+/metrics", log.read_text())
    assert found is not None
    async with aiohttp.ClientSession() as session, session.get(found[0]) as got:
        return await got.text()


async def test_pods_get_lamps_through_both_doors(tmp_path: Path) -> None:
    root = build_lamps(tmp_path / "machines")[EXAMPLE]
    levels = {name: root / f"var/lib/lamps/{name}/level" for name in ("desk", "floor")}
    async with node_in(tmp_path) as node, lamps(node, root) as process:
        cdi = node.root / "cdi"

        # A device plugin.
        asks = container(resources={"limits": {LAMP: "1"}}, script="env; exec sleep 1000")
        await node.run("plugin", asks)
        await node.phase("plugin", "Running")
        await node.wait(lambda: any("LAMP_LEVEL" in line for line in node.log("plugin")), "its variables")
        env = dict(line.split("=", 1) for line in node.log("plugin") if "=" in line)
        held = env["DEVICES_EXAMPLE_COM_LAMP"]
        free = "floor" if held == "desk" else "desk"
        assert env["LAMP_LEVEL_EXAMPLE_COM_LAMP"] == "50" and levels[held].read_text() == "50\n"
        tainted = {held: [f"{DRIVER}/held-by-plugin"], free: []}
        await node.wait(lambda: taints(node) == tainted, f"{held} tainted")

        # A claim, with parameters.
        await claim_pod(node, "claim", free, brightness=70)
        await node.phase("claim", "Running")
        assert levels[free].read_text() == "70\n"
        text = "".join(path.read_text() for path in sorted(cdi.glob("*.yaml")))
        assert "LAMP_LEVEL_CLAIM_LAMP=70" in text
        await node.wait_counts("1/2", LAMP)
        await node.server.mark_deleted("claim")
        await node.gone("claim")
        await node.wait(
            lambda: levels[free].read_text() == "0\n" and not [*cdi.glob("*.yaml")], "it to be given back"
        )
        await node.server.delete(RESOURCE_CLAIMS, "claim")
        await node.wait_counts("2/2", LAMP)

        # Parameters that the driver does not take.
        await claim_pod(node, "wrong", free, brightness=700)
        await node.wait(lambda: "brightness" in messages(node), "an event that names the field")
        assert node.status("wrong").get("phase") != "Running" and levels[free].read_text() == "0\n"
        assert re.search(r"request lamp: brightness: .*<= 100", messages(node))

        # Health.
        (root / f"var/lib/lamps/{free}/state").write_text("hot\n")
        await node.wait(lambda: taints(node)[free] == [f"{DRIVER}/unhealthy"], "the taint")
        shown = await metrics(node.root / "lamp.log")
        assert f'resource="{LAMP}"' in shown and f'driver="{DRIVER}"' in shown
        assert await end(process, signal.SIGTERM) == 0


async def test_a_claim_outlives_the_process_that_prepared_it(tmp_path: Path) -> None:
    """Killed; its lamp is unplugged meanwhile; the next process gives back what it never saw."""
    root = build_lamps(tmp_path / "machines")[EXAMPLE]
    lamp = root / "var/lib/lamps/desk"
    async with node_in(tmp_path) as node:
        cdi = node.root / "cdi"
        async with lamps(node, root) as process:
            await claim_pod(node, "claim", "desk", brightness=70)
            await node.phase("claim", "Running")
            assert await end(process, signal.SIGKILL) == -signal.SIGKILL
        lamp.rename(root / "var/lib/desk")
        second, log = await start(node, root), node.root / "lamp.log"
        try:
            await node.wait(lambda: log.read_text().count("part=dra msg=registered") == 2, "it to register")
            (root / "var/lib/desk").rename(lamp)
            assert [*cdi.glob("*.yaml")] and (lamp / "level").read_text() == "70\n"
            await node.server.mark_deleted("claim")
            await node.gone("claim")
            await node.wait(lambda: not [*cdi.glob("*.yaml")], "it to be given back")
            assert (lamp / "level").read_text() == "0\n"
        finally:
            assert await end(second, signal.SIGTERM) == 0
