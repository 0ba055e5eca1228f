"""The API server that both drivers of `dray bench driver` talk to: a real one where it is installed, else ours."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dray.processes.apiserver import KUBECONFIG
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.leftovers import PARENT
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.kubernetes.tools import Tools

_START_SECONDS: Final = 60.0


@contextmanager
def api_server(tools: Tools | None) -> Iterator[Path]:
    """An administrator's kubeconfig. `tools`: those of a real Kubernetes; None: `dray apiserver`."""
    if tools is not None:
        with ControlPlane(tools) as plane:
            yield plane.kubeconfig
        return
    with tempfile.TemporaryDirectory(prefix="dray-bench-", dir=PARENT) as name:
        directory = Path(name)
        words = ["-m", "dray", "apiserver", f"--data-dir={directory / 'data'}", "--listen=127.0.0.1:0"]
        paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
        server = Part("apiserver", [sys.executable, *words], directory, paths)
        server.start()
        try:
            kubeconfig = directory / "data" / KUBECONFIG
            wait_until(kubeconfig.exists, "dray apiserver to listen", _START_SECONDS, (server,))
            yield kubeconfig
        finally:
            server.stop()
