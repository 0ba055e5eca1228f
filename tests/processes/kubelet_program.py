"""A kubelet on a directory of its own that kills itself where DIR/target says: `python -m tests.processes.kubelet_program DIR`.

With `--runc F --kubeconfig K` its containers are runc's and its pods an API server's; else it has plain processes, and
the manifests in DIR/manifests.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from dray.processes.kubelet import PROCESS, RUNC, KubeletOptions, run_kubelet
from dray.runtime.clock import SystemClock
from dray.runtime.logs import setup_logs
from dray.runtime.tasks import run_until_signalled
from tests.processes.fast_clock import FastClock
from tests.processes.fault_points import FaultPoints

TARGET = "target"
NODE = "node"


def options(
    root: Path,
    *,
    runc: Path | None = None,
    kubeconfig: Path | None = None,
    reached: Callable[[str], None] = lambda _: None,
) -> KubeletOptions:
    """All places below `root`."""
    return KubeletOptions(
        node_name=NODE,
        root_dir=root / "kubelet",
        device_plugin_dir=root / "kubelet/device-plugins",
        state_dir=root / "state",
        log_dir=root / "logs",
        manifests=None if kubeconfig else root / "manifests",
        kubeconfig=kubeconfig,
        runtime=RUNC if runc else PROCESS,
        runc=runc,
        cdi_dirs=(root / "cdi",),
        image_dirs=(Path(tempfile.gettempdir()),),
        reached=reached,
    )


def main() -> None:
    """Until it is signalled, or dies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--runc", type=Path)
    parser.add_argument("--kubeconfig", type=Path)
    given = parser.parse_args()
    setup_logs()
    points = FaultPoints(given.root / TARGET)
    chosen = options(given.root, runc=given.runc, kubeconfig=given.kubeconfig, reached=points.reached)
    points.watch_effects()
    clock = SystemClock() if given.kubeconfig else FastClock(5)
    run_until_signalled(lambda: run_kubelet(chosen, clock))


if __name__ == "__main__":
    main()
