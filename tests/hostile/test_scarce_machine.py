"""A machine on which tenants have left no processes and no files: the scheduler refuses a pod, and goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCARCE = """
import asyncio, os, resource, sys
from dray.runtime.clock import SystemClock
from dray.runtime.forked import run_forked, Limits
from dray.scheduler.apart import Apart, ApartOptions
from dray.scheduler.decision import Failed
from tests.scheduler.objects import make_pod as pod

def take_the_rest():
    try:
        while True:
            os.open("/dev/null", os.O_RDONLY)
    except OSError:
        pass

async def main():
    apart = Apart(ApartOptions(), SystemClock())
    apart.overran(pod("a"))
    if sys.argv[1] == "files":
        # All but one, two or three of the descriptors there may be: for a pipe, and for a handle on the copy.
        kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(sys.argv[2]))]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(os.dup(0), 3), 4096))
        for one in kept:
            os.close(one)
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        os.setresuid(65534, 65534, 65534) if os.getuid() == 0 else None
    if sys.argv[3:]:
        asyncio.get_running_loop().call_soon(take_the_rest)
    decision = await apart.decide(pod("a"), lambda budget: Failed(pod("a"), "by the copy"))
    print(decision.reason, apart.is_due(pod("a")))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("scarce", "told"),
    [
        ("files 0", "no process could be started to decide in: cannot open a pipe: Too many open files"),
        ("files 1", "no process could be started to decide in: cannot open a pipe: Too many open files"),
        ("files 2", "by the copy"),
        ("files 2 later", "by the copy"),
        (
            "processes",
            "no process could be started to decide in: cannot start a process: Resource temporarily unavailable",
        ),
    ],
)
def test_a_machine_without_processes_or_files_left_refuses_the_pod_for_a_while(
    scarce: str, told: str
) -> None:
    command = [sys.executable, "-c", SCARCE, *scarce.split()]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout == f"{told} False\n", ran.stderr
