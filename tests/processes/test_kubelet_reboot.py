"""After a reboot pods start over, init containers first. Plain processes stand for containers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dray.processes.kubelet import run_kubelet
from dray.runtime.tasks import running
from tests.processes.kubelet_program import options
from tests.waiting import wait_until


def script(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "image": "none", "command": ["sh", "-c", text]}


def put(root: Path, name: str, init: dict[str, Any], main: dict[str, Any], **spec: Any) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"initContainers": [init], "containers": [main], "terminationGracePeriodSeconds": 1, **spec},
    }
    (root / "manifests" / f"{name}.json").write_text(json.dumps(document))


def reboot(root: Path) -> None:
    """Everything that ran is gone, and what was written down is of a boot before this one."""
    for path in sorted((root / "state/containers").glob("*/*/*.json")):
        if "trash" in path.parts:  # it is just being removed, in a thread that outlives the kubelet's loop
            continue
        record = json.loads(path.read_text())
        if "boot" in record:
            if "pid" in record:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record["pid"], signal.SIGKILL)
            path.write_text(json.dumps({**record, "boot": "before"}))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def phase(root: Path, name: str) -> str:
    path = root / f"state/status/default_{name}.json"
    found: str = json.loads(path.read_text())["status"]["phase"] if path.exists() else ""
    return found


async def live(root: Path, is_done: Callable[[], bool]) -> None:
    """One life of the kubelet; containers go on after it."""
    async with running(run_kubelet(options(root)), name="kubelet", stop_timeout=20):
        await wait_until(is_done)


async def test_init_containers_run_again_before_the_others(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    trace, once = tmp_path / "trace", tmp_path / "once"
    main = script("a", f"echo main >> {trace}; sleep 60")
    put(tmp_path, "lasting", script("i", f"sleep 0.1; echo init >> {trace}"), main)
    init = script("i", f"echo init >> {once}")
    put(tmp_path, "over", init, script("a", "exit 0"), restartPolicy="OnFailure")
    await live(tmp_path, lambda: len(lines(trace)) == 2 and phase(tmp_path, "over") == "Succeeded")
    reboot(tmp_path)
    await live(tmp_path, lambda: len(lines(trace)) == 4)
    assert (lines(trace), lines(once)) == (["init", "main"] * 2, ["init"])
    (tmp_path / "manifests/lasting.json").unlink()
    await live(tmp_path, lambda: not any((tmp_path / "state/containers/sandboxes").iterdir()))
