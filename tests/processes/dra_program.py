"""Agents that end themselves where DIR/target says: `python -m tests.processes.dra_program DIR`.

Each line on stdin is a life, and says how many times faster than real its clock runs: a forked child, so that nothing is
imported again and a kill costs little. Its pid is printed, and when it has ended its exit code, as `subprocess` tells it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from dray.client.kubeconfig import find_access
from dray.processes.agent import AgentOptions, run_agent
from dray.runtime.clock import SystemClock
from dray.runtime.logs import setup_logs
from dray.runtime.tasks import run_until_signalled
from tests.processes.fast_clock import FastClock
from tests.processes.fault_points import FaultPoints

NODE = "node-1"
TARGET, LOG = "target", "agent.log"
_DIE_WITH_PARENT = 1


def options(root: Path) -> AgentOptions:
    """All places below `root`."""
    return AgentOptions(
        config=root / "agent.json",
        access=find_access(root / "kubeconfig"),
        node_name=NODE,
        cdi_dir=root / "cdi",
        kubelet_dir=root / "kubelet",
        device_plugin_dir=root / "kubelet/device-plugins",
        state_dir=root / "state",
        host_root=str(root / "host"),
    )


def live(root: Path, speed: int) -> None:
    """One agent, until it is signalled, or dies."""
    points = FaultPoints(root / TARGET)
    chosen = replace(options(root), reached=points.reached)
    points.watch_effects()
    run_until_signalled(lambda: run_agent(chosen, FastClock(speed) if speed > 1 else SystemClock()))


def die_with_parent() -> None:
    """Nothing of a test that was cut off stays behind."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def child(root: Path, speed: int) -> int:
    """The pid of a new life, in the parent."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    die_with_parent()
    try:
        log = os.open(root / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        setup_logs()
        live(root, speed)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        os.write(2, f"agent ended by {error!r}\n".encode())
        raise
    finally:
        os._exit(code)


def main() -> None:
    """Until stdin ends."""
    root = Path(sys.argv[1])
    die_with_parent()
    for line in sys.stdin:
        pid = child(root, int(line))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
