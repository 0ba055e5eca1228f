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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.campaign import LONG, campaign, seeded
from tests.deadly import forgive
from tests.processes.fault_points import (
    ANY,
    DEVICE_STEPS,
    EFFECTS,
    POD_STEPS,
    STEPS,
    Target,
    deaths,
    rarest,
)
from tests.processes.kubelet_program import TARGET
from tests.waiting import block_until

GPU, MARK = "example.com/gpu", "SIM_RESOURCE_EXAMPLE_COM_GPU"
DEVICES = 4
POINTS = (*DEVICE_STEPS, *POD_STEPS, *(one for one in EFFECTS if "dra_manager_state" not in one))
"""What is told where pods come from files and have no claims; tests/e2e has the others."""


@dataclass
class Node:
    """One machine: an agent that goes on, and kubelets that come and go."""

    root: Path
    agent: subprocess.Popen[bytes]
    kubelet: subprocess.Popen[bytes] | None = None
    wanted: dict[str, int] = field(default_factory=dict)
    """Names of pods, and how many devices they ask for."""

    def want(self, name: str, count: int, script: str = "exec sleep 1000", **more: object) -> None:
        self.wanted[name] = count
        command = ["sh", "-c", script]
        container = {
            "name": "main",
            "image": "none",
            "command": command,
            "env": [{"name": "TEST_POD", "value": name}, {"name": "TEST_ROOT", "value": str(self.root)}],
            "resources": {"limits": {GPU: str(count)}},
        }
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **more}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        (self.root / "manifests" / f"{name}.json").write_text(json.dumps(manifest))

    def drop(self, name: str) -> None:
        del self.wanted[name]
        (self.root / "manifests" / f"{name}.json").unlink()

    def aim(self, target: Target | None) -> None:
        """Where the kubelet shall die, this one or the next; None: nowhere."""
        path = self.root / TARGET
        target.write(path) if target else path.unlink(missing_ok=True)

    def deaths(self) -> list[str]:
        return deaths(self.root / "kubelet.log")

    def start(self) -> None:
        forgive(self.root / "state")
        argv = [sys.executable, "-m", "tests.processes.kubelet_program", str(self.root)]
        with (self.root / "kubelet.log").open("ab") as log:
            self.kubelet = subprocess.Popen(argv, stdout=log, stderr=log, cwd=Path(__file__).parents[2])

    def kill(self) -> None:
        if self.kubelet is not None:
            self.kubelet.kill()
            self.kubelet.wait(60)

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
        """What shall run runs, and the kubelet has come to the end with all other pods."""
        found = {name: len(pids) for name, pids in self.running().items()}
        is_served = (self.root / "kubelet/device-plugins/kubelet.sock").exists()
        told = all(self.phase(name) == "Running" for name in self.wanted)
        return (
            found == dict.fromkeys(self.wanted, 1)
            and self.records() == len(self.wanted)
            and told
            and is_served
        )

    def records(self) -> int:
        """How many pods the kubelet has."""
        return len(list((self.root / "state/records").glob("*.json")))

    def logs(self) -> list[str]:
        """The pods whose logs are on disk."""
        return sorted(path.name.split("_")[1] for path in (self.root / "logs").iterdir())

    def phase(self, name: str) -> str:
        try:
            status = json.loads((self.root / f"state/status/default_{name}.json").read_text())["status"]
        except FileNotFoundError:
            return ""
        return str(status.get("phase", ""))

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

    def until(self, condition: Callable[[], object]) -> None:
        block_until(condition, story=lambda: f"wanted {self.wanted}, running {self.running()}\n{self.log()}")

    def log(self) -> str:
        return (self.root / "kubelet.log").read_text(errors="replace")[-6000:]


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
        agent.wait(60)
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


def is_wild(node: Node, dice: random.Random) -> bool:
    """In a campaign, once there were as many kills as there are steps: now and then anything is aimed at."""
    return LONG and len(node.deaths()) >= len(POINTS) and dice.random() < 0.3


def aim(node: Node, dice: random.Random) -> None:
    """At a step that was hit seldom so far, or at whatever comes as the n-th."""
    if is_wild(node, dice):
        node.aim(Target(ANY, dice.randint(1, 40)))
    else:
        node.aim(Target(dice.choice(rarest(POINTS, node.deaths()))))


def recover(node: Node, dice: random.Random) -> None:
    """Start it again until it lives, and let it die on the way now and then."""
    while node.has_died():
        node.check()
        node.aim(Target(ANY, dice.randint(1, 30)) if is_wild(node, dice) else None)
        node.start()
        node.until(lambda: node.has_died() or node.is_settled())


def test_kills_between_any_two_steps_lose_and_double_nothing(node: Node) -> None:
    dice = seeded(5)
    kills = campaign(4, 500)
    recover(node, dice)
    while len(node.deaths()) < kills:
        before = node.check()
        aim(node, dice)
        change(node, dice)
        node.until(lambda: node.has_died() or node.is_settled())
        recover(node, dice)
        after = node.check()
        for name in before.keys() & node.wanted.keys():
            assert after[name] == before[name], f"{name} did not keep its container and devices"
    places = set(node.deaths())
    assert len(places & set(POINTS)) >= min(kills, len(POINTS)), sorted(set(POINTS) - places)
    node.aim(None)
    for name in list(node.wanted):
        node.drop(name)
    node.want("all", DEVICES)
    node.until(node.is_settled)
    node.check()
    assert len(node.logs()) == 1


def test_a_kill_in_the_grace_of_a_stop_gives_all_back(node: Node) -> None:
    asked, go = node.root / "asked", node.root / "go"
    script = f"trap 'touch {asked}; until [ -e {go} ]; do sleep 0.02; done; exit 0' TERM; while :; do sleep 0.02; done"
    node.want("one", DEVICES, script, terminationGracePeriodSeconds=60)
    node.start()
    node.until(lambda: node.phase("one") == "Running")
    node.drop("one")
    node.until(asked.exists)
    node.kill()
    asked.unlink()
    node.start()
    node.want("next", 0)
    node.until(lambda: node.phase("next") == "Running")
    assert node.records() == 2, "the other one still ends"
    go.touch()
    node.until(lambda: node.records() == 1)
    node.want("all", DEVICES)
    node.until(node.is_settled)
    node.check()


def test_the_last_status_is_told_though_a_kill_came_before(node: Node) -> None:
    node.aim(Target("end recorded"))
    node.want("one", 0, "true", restartPolicy="Never")
    node.start()
    node.until(node.has_died)
    assert node.phase("one") != "Succeeded"
    node.aim(None)
    node.start()
    node.until(lambda: node.phase("one") == "Succeeded")


def test_the_logs_of_a_pod_go_with_it_though_kills_come_between(node: Node) -> None:
    node.want("stays", 0)
    node.want("goes", 0, "echo hello", restartPolicy="Never")
    node.start()
    node.until(lambda: node.phase("goes") == "Succeeded" and node.phase("stays") == "Running")
    assert node.logs() == ["goes", "stays"], "they stay with a pod that has ended"
    node.aim(Target("before os.rmdir main"))
    node.drop("goes")
    node.until(node.has_died)
    node.aim(Target("before os.remove N.json"))
    node.start()
    node.until(node.has_died)
    assert node.deaths() == ["before os.rmdir main", "before os.remove N.json"]
    node.aim(None)
    node.start()
    node.until(lambda: node.records() == 1)
    assert node.logs() == ["stays"]


def test_every_step_that_the_kubelet_tells_is_a_fault_point() -> None:
    sources = (Path(__file__).parents[2] / "src/dray/kubelet").rglob("*.py")
    told = [place for path in sources for place in re.findall(r"reached\(\"([^\"]+)\"\)", path.read_text())]
    assert sorted(told) == sorted(STEPS)


def test_a_second_kubelet_on_the_same_state_is_refused(node: Node) -> None:
    node.want("one", 1)
    node.start()
    node.until(node.is_settled)
    (before,) = node.running().values()
    argv = [sys.executable, "-m", "dray", "kubelet", "--manifests", str(node.root / "manifests")]
    argv += ["--runtime", "process", "--kubelet-dir", str(node.root / "k2"), "--metrics-address", "none"]
    argv += ["--device-plugin-dir", str(node.root / "k2/plugins"), "--log-dir", str(node.root / "logs2")]
    argv += ["--state-dir", str(node.root / "state")]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert node.kubelet is not None
    assert f"is locked by process {node.kubelet.pid}: stop it first" in second.stderr
    assert second.returncode == 1
    assert node.running() == {"one": before}
    node.kill()
    node.start()
    node.until(lambda: node.is_settled() and not node.has_died())
