"""Make changes to the host: each line of input is one as JSON, answered by a line with the error or null.

With `isolate` it is made as by the agent, in a process of its own where the kernel may block; that is slow in a guest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from dray.errors import Error
from dray.hardware.change import Change
from dray.hardware.change.executor import Executor, log_changes
from dray.runtime.logs import setup_logs


class Request(msgspec.Struct):
    """One line."""

    change: Change
    isolate: bool = False


if __name__ == "__main__":
    setup_logs()
    while line := sys.stdin.readline():
        failure = None
        try:
            request = msgspec.json.decode(line, type=Request)
            Executor(Path("/"), log_changes, isolate=request.isolate).apply(request.change)
        except Error as error:
            failure = str(error)
        print(json.dumps({"error": failure}), flush=True)
