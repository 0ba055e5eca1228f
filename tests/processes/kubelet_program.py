"""A kubelet on a directory of its own that kills itself at the n-th step: `python -m tests.processes.kubelet_program DIR N`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from dray.processes.kubelet import PROCESS, KubeletOptions, run_kubelet
from dray.runtime.tasks import run_until_signalled


class DieAt:
    """Counts steps; 0 never comes."""

    def __init__(self, step: int) -> None:
        self._left = step

    def __call__(self, place: str) -> None:
        self._left -= 1
        if self._left == 0:
            print(f"dies after {place}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


def options(root: Path, step: int = 0) -> KubeletOptions:
    """All places below `root`."""
    return KubeletOptions(
        node_name="node",
        root_dir=root / "kubelet",
        device_plugin_dir=root / "kubelet/device-plugins",
        state_dir=root / "state",
        log_dir=root / "logs",
        manifests=root / "manifests",
        runtime=PROCESS,
        reached=DieAt(step),
    )


if __name__ == "__main__":
    chosen = options(Path(sys.argv[1]), int(sys.argv[2]))
    run_until_signalled(lambda: run_kubelet(chosen))
