from __future__ import annotations

import os
import subprocess
import sys
import time

from dray.bench.agent_process import cpu_seconds, memory_of


def test_cpu_time_is_that_of_the_process() -> None:
    """Between what the process itself counts before and after."""
    before = time.process_time()
    found = cpu_seconds(os.getpid())
    assert before <= found <= time.process_time()
    code = "import time\nwhile True: print(time.process_time(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        before = float(other.stdout.readline())
        found = cpu_seconds(other.pid)
        other.stdin.write(b"\n")
        assert 0 < before <= found <= float(other.stdout.readline())
        other.kill()


def test_memory_grows_by_what_a_process_takes() -> None:
    code = "import sys; kept = bytearray(b'x') * (int(sys.argv[1]) * 2**20); print(len(kept), flush=True); input()"
    used = []
    for size in (0, 20):
        command = [sys.executable, "-c", code, str(size)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            used.append(memory_of(process.pid))
            process.communicate(b"\n", timeout=60)
    small, large = used
    assert small.uss <= small.pss <= small.rss
    assert 18 < large.rss - small.rss < 25
    assert 18 < large.uss - small.uss < 25
