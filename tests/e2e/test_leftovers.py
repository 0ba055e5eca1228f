"""Nothing of a cluster stays on the machine: after a stop, after SIGKILL of its owner, and after worse; nor goes too early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from dray.runtime.clock import SystemClock
from dray.testing.check.program import Program, private_room
from dray.testing.check.program import wait_until as is_soon
from dray.testing.kubernetes import leftovers
from dray.testing.kubernetes.part import wait_until
from dray.testing.kubernetes.tools import Tools
from tests.e2e.containerd_part import containerd
from tests.waiting import PATIENCE

# Starts a cluster with a running pod, tells where it is, and waits to be ended.
OWNER = """
import json, signal, sys
from pathlib import Path
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.tools import locate

container = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "1000"]}
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
with Cluster(locate(Path(sys.argv[1]))) as cluster:
    cluster.request("POST", "/api/v1/namespaces/default/pods", pod)
    cluster.wait_pod("p")
    facts = {"directory": str(cluster.directory), "ports": cluster.settings.ports, "reaper": cluster.private.reaper_pid}
    print(json.dumps(facts), flush=True)
    sys.stdin.read()
"""


class Owner:
    """A process that owns a cluster."""

    def __init__(self, modules: Path) -> None:
        argv = [sys.executable, "-c", OWNER, str(modules)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        facts: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.directory = Path(facts["directory"])
        self.ports: tuple[int, ...] = tuple(facts["ports"])
        self.reaper: int = facts["reaper"]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)

    def remains(self) -> list[str]:
        return leftovers.remains(self.directory, self.ports)


@pytest.fixture
def owner(tools: Tools) -> Iterator[Owner]:
    owner = Owner(tools.modules)
    yield owner
    owner.kill()


def test_stop_leaves_nothing(owner: Owner) -> None:
    kinds = {line.split()[0] for line in owner.remains()}
    assert kinds == {"process", "cgroup", "port", "file"}, "the check must see what it looks for"
    assert leftovers.is_live(owner.directory)
    owner.process.communicate("", timeout=PATIENCE)
    assert owner.process.returncode == 0
    assert owner.remains() == []


@pytest.fixture(scope="module")
def survivor(tools: Tools) -> Iterator[Owner]:
    """Starts after another owner, and its reaper, were killed."""
    owner = Owner(tools.modules)
    os.kill(owner.reaper, signal.SIGKILL)
    owner.kill()
    lock = locked(owner.directory)  # clusters that others start meanwhile leave it alone
    assert any(line.startswith("process") for line in owner.remains()), "nobody has cleaned up"
    os.close(lock)
    survivor = Owner(tools.modules)
    try:
        assert owner.remains() == []
        yield survivor
    finally:
        survivor.kill()


def locked(directory: Path) -> int:
    """The lock of an owner that has just been killed, as soon as it is free."""
    found: list[int] = []

    def is_locked() -> bool:
        with suppress(BlockingIOError):
            found.append(leftovers.take_lock(directory))
        return bool(found)

    wait_until(is_locked, "the lock to be free", 10.0)
    return found[0]


def test_next_start_cleans_up_when_nobody_could(survivor: Owner) -> None:
    assert survivor.directory not in leftovers.sweep_dead()
    assert survivor.remains() != [], "a cluster of a live owner is not touched"


def test_killed_owner_leaves_nothing(survivor: Owner) -> None:
    survivor.kill()
    wait_until(lambda: survivor.remains() == [], "the reaper to clean up", 30.0)


async def test_a_check_and_a_node_leave_each_other_their_mount_points(tools: Tools) -> None:
    """Both mount over /var/lib/kubelet, each in its own namespace. Whoever made it may end first."""

    def sees(pid: int) -> bool:
        return Path(f"/proc/{pid}/root{leftovers.KUBELET_DIR}/device-plugins").is_dir()

    with ExitStack() as node:
        with private_room() as room:
            assert room.is_isolated
            daemon = node.enter_context(containerd(tools))
            assert sees(daemon.part.pid)
        assert sees(daemon.part.pid), "the check took the node's directory with it"
        with private_room() as room:
            go_on, place = room.root / "go-on", leftovers.KUBELET_DIR / "device-plugins"
            script = f"until [ -e {go_on} ]; do test -d {place} || exit 1; sleep 0.05; done; test -d {place}"
            program = Program(["sh", "-c", script], room, {}, SystemClock())
            await program.start()
            node.close()
            go_on.touch()
            assert await is_soon(lambda: not program.is_running, 10.0, SystemClock())
            assert program.death() == "the process ended with exit code 0", (
                "the node took the check's directory with it"
            )
