"""The two servers: `dray apiserver`, and kube-apiserver with its etcd, each alone on the machine while it is measured."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dray.bench.agent_process import memory_of
from dray.bench.apiserver_connection import Target
from dray.bench.peers import MODULES
from dray.client.kubeconfig import find_access
from dray.errors import NotFoundError, UnavailableError
from dray.processes.apiserver import KUBECONFIG
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.leftovers import PARENT
from dray.testing.kubernetes.part import last_lines
from dray.testing.kubernetes.tools import Tools, locate

OURS: Final = "Dray"
PEER: Final = "kube-apiserver 1.36.4 + etcd"
_NO_SYNC: Final = "--unsafe-no-fsync"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Side:
    """A server that answers, and the processes it consists of."""

    name: str
    target: Target
    pids: tuple[int, ...]

    def memory(self) -> float:
        """MiB that are resident, of all its processes."""
        return sum(memory_of(pid).rss for pid in self.pids)


@contextmanager
def our_side() -> Iterator[Side]:
    """`dray apiserver` as an operator starts it. Its files lie on the disk on which the peer has its own."""
    with tempfile.TemporaryDirectory(prefix="dray-bench-", dir=PARENT) as name:
        directory = Path(name)
        words = ["-m", "dray", "apiserver", "--data-dir", str(directory), "--listen", "127.0.0.1:0"]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)
        try:
            yield Side(OURS, _wait_answering(process, directory), (process.pid,))
        finally:
            _stop(process)


def _wait_answering(process: subprocess.Popen[bytes], directory: Path) -> Target:
    """The kubeconfig is written when the server listens."""
    deadline = time.monotonic() + _START_SECONDS
    while not (directory / KUBECONFIG).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise UnavailableError(f"dray apiserver does not start: {last_lines(directory / 'log', 3)}")
        time.sleep(_POLL_SECONDS)
    access = find_access(directory / KUBECONFIG)
    address = urlsplit(access.server)
    ca = str(directory / "pki" / "ca.crt")
    return Target(str(address.hostname), int(address.port or 443), ca, str(access.user.token))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class DurablePlane(ControlPlane):
    """A control plane that syncs: what it acknowledges survives a power cut, as with us."""

    def _prepare(self) -> None:
        super()._prepare()
        self.etcd.argv.remove(_NO_SYNC)


def peer_tools(modules: Path = MODULES) -> Tools:
    """The programs of the peer. NotFoundError says how to get them."""
    hint = (
        "kube-apiserver and etcd are not installed: `python -m dray.testing.kubernetes install` builds them"
    )
    if not modules.is_dir():
        raise NotFoundError(f"{modules} is not here: run from a checkout of Dray", kind="peer")
    tools = locate(modules)
    if tools.missing():
        raise NotFoundError(hint, kind="peer")
    return tools


@contextmanager
def peer_side(tools: Tools) -> Iterator[Side]:
    """kube-apiserver and etcd with their defaults."""
    with DurablePlane(tools) as plane:
        address = urlsplit(plane.server)
        target = Target(
            str(address.hostname),
            int(address.port or 443),
            str(plane.authority.certificate),
            plane.admin_token,
        )
        yield Side(PEER, target, (plane.apiserver.pid, plane.etcd.pid))
