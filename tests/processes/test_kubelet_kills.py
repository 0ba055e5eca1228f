"""`dray kubelet` killed between any two steps of a pod's life, with a real plugin and real processes as containers."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.campaign import campaign

GPU, MARK = "example.com/gpu", "SIM_RESOURCE_EXAMPLE_COM_GPU"
DEVICES = 4
STEPS = 12
"""A start and a stop of one pod have about as many steps."""


@dataclass
class Node:
    """One machine: an agent that goes on, and kubelets that come and go."""

    root: Path
    agent: subprocess.Popen[bytes]
    kubelet: subprocess.Popen[bytes] | None = None
    wanted: dict[str, int] = field(default_factory=dict)
    """Names of pods, and how many devices they ask for."""

    def want(self, name: str, count: int) -> None:
        self.wanted[name] = count
        command = ["sh", "-c", "exec sleep 1000"]
        container = {
            "name": "main",
            "image": "none",
            "command": command,
            "env": [{"name": "TEST_POD", "value": name}, {"name": "TEST_ROOT", "value": str(self.root)}],
            "resources": {"limits": {GPU: str(count)}},
        }
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        (self.root / "manifests" / f"{name}.json").write_text(json.dumps(manifest))

    def drop(self, name: str) -> None:
        del self.wanted[name]
        (self.root / "manifests" / f"{name}.json").unlink()

    def start(self, die_at: int = 0) -> None:
        argv = [sys.executable, "-m", "tests.processes.kubelet_program", str(self.root), str(die_at)]
        with (self.root / "kubelet.log").open("ab") as log:
            self.kubelet = subprocess.Popen(argv, stdout=log, stderr=log, cwd=Path(__file__).parents[2])

    def kill(self) -> None:
        if self.kubelet is not None:
            self.kubelet.kill()
            self.kubelet.wait(10)

    def has_died(self) -> bool:
        return self.kubelet is None or self.kubelet.poll() is not None

    def running(self) -> dict[str, dict[int, frozenset[str]]]:
        """Pods by name: the processes of their containers, each with its devices."""
        found: dict[str, dict[int, frozenset[str]]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if not (entry / "cmdline").read_bytes().startswith(b"sleep\x00"):
                    continue
                environ = dict(
                    pair.split("=", 1) for pair in (entry / "environ").read_text().split("\0") if "=" in pair
                )
                if environ.get("TEST_ROOT") == str(self.root):
                    ids = frozenset(filter(None, environ.get(MARK, "").split(",")))
                    found.setdefault(environ["TEST_POD"], {})[int(entry.name)] = ids
        return found

    def is_settled(self) -> bool:
        found = self.running()
        return {name: len(pids) for name, pids in found.items()} == dict.fromkeys(self.wanted, 1)

    def check(self) -> dict[str, dict[int, frozenset[str]]]:
        """No device twice; each pod has what it asked for, once."""
        found = self.running()
        held = [one for pids in found.values() for ids in pids.values() for one in ids]
        assert len(held) == len(set(held)), f"given twice: {found}"
        for name, pids in found.items():
            assert len(pids) == 1, f"{name} runs {len(pids)} times"
            (ids,) = pids.values()
            assert name not in self.wanted or len(ids) == self.wanted[name], (name, ids)
        return found

    def log(self) -> str:
        return (self.root / "kubelet.log").read_text(errors="replace")[-6000:]


def until(condition: Callable[[], bool], node: Node, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"wanted {node.wanted}, running {node.running()}\n{node.log()}")
        time.sleep(0.02)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "manifests").mkdir()
    plugins = tmp_path / "kubelet/device-plugins"
    plugins.mkdir(parents=True)
    sim = {"devices": [{"name": "gpu", "count": DEVICES, "resourceName": GPU, "numaNodes": 2}]}
    (tmp_path / "agent.json").write_text(json.dumps({"dray": {"sim": sim}}))
    argv = [sys.executable, "-m", "dray", "agent", "--config", str(tmp_path / "agent.json")]
    argv += ["--kubelet-dir", str(tmp_path / "kubelet"), "--device-plugin-dir", str(plugins)]
    argv += ["--state-dir", str(tmp_path / "agent"), "--host-root", "/", "--metrics-address", "none"]
    with (tmp_path / "agent.log").open("wb") as log:
        agent = subprocess.Popen(argv, stdout=log, stderr=log)
    made = Node(tmp_path, agent)
    try:
        yield made
    finally:
        made.kill()
        agent.send_signal(signal.SIGTERM)
        agent.wait(20)
        for pids in made.running().values():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def change(node: Node, dice: random.Random) -> None:
    """Take some pods away and add some that fit."""
    for name in list(node.wanted):
        if dice.random() < 0.5:
            node.drop(name)
    for _ in range(dice.randint(1, 3)):
        count = dice.choice((0, 1, 1, 2))
        if sum(node.wanted.values()) + count <= DEVICES:
            node.want(f"p{dice.randrange(10**6)}", count)


def test_kills_between_any_two_steps_lose_and_double_nothing(node: Node) -> None:
    dice = random.Random(5)
    places: dict[str, int] = {}
    for number in range(campaign(12, 500)):
        before = node.check()
        change(node, dice)
        node.start(die_at=dice.randint(1, STEPS))
        until(lambda: node.has_died() or node.is_settled(), node)
        was_alive = not node.has_died()
        node.kill()
        node.check()
        node.start()
        until(node.is_settled, node)
        after = node.check()
        for name in before.keys() & node.wanted.keys():
            assert after[name] == before[name], (
                f"round {number}: {name} did not keep its container and devices"
            )
        if was_alive:
            places["none"] = places.get("none", 0) + 1
        node.kill()
    for place in re.findall(r"dies after (\w+)", (node.root / "kubelet.log").read_text()):
        places[place] = places.get(place, 0) + 1
    assert len(places.keys() - {"none"}) >= campaign(3, 8), places
    for name in list(node.wanted):
        node.drop(name)
    node.want("all", DEVICES)
    node.start()
    until(node.is_settled, node)
    node.check()
