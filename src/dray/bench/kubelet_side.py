"""One load on one side: a process that is the kubelet, another that is the plugin, and a directory where they meet."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dray.bench.kubelet_cases import Load
from dray.errors import InvariantError, ProtocolError
from dray.kubelet.devices.checkpoint import decode
from dray.kubelet.devices.contract import CHECKPOINT
from dray.testing.kubernetes.part import last_lines

OURS = (sys.executable, "-m", "dray.bench.kubelet_node")
_SECONDS = 600.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Admissions:
    """Seconds of each, in order, and the most MiB that the process had resident."""

    seconds: tuple[float, ...]
    peak: float

    @property
    def rate(self) -> float:
        """Pods a second."""
        return len(self.seconds) / sum(self.seconds)


def admissions(command: Sequence[str], load: Load) -> Admissions:
    """Admit all pods once. The checkpoint is looked at afterwards: all have their devices, and none is given twice."""
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as name:
        folder = Path(name)
        directory = folder / "plugins"
        directory.mkdir()
        document = json.dumps(load.document(directory))
        with (folder / "log").open("wb") as log, _plugin(document, log):
            done = subprocess.run(
                list(command),
                input=document.encode() + b"\n",
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=_SECONDS,
                check=False,
            )
        answer = json.loads(done.stdout or b"{}")
        if done.returncode or answer.get("error", "it said nothing"):
            why = answer.get("error") or last_lines(folder / "log", 3)
            raise ProtocolError(f"{command[0]} did not admit the pods of {load.name!r}: {why}")
        check_grants((directory / CHECKPOINT).read_bytes(), load)
    return Admissions(tuple(one / 1e6 for one in answer["micros"]), answer["peakKiB"] / 1024)


def check_grants(content: bytes, load: Load) -> None:
    """InvariantError where the file does not have what was to be given."""
    grants = decode(content).grants
    ids = [one for grant in grants for one in grant.ids]
    if not (len(grants) == load.pods and len(ids) == len(set(ids)) == load.pods * load.each):
        raise InvariantError(
            f"load {load.name!r}: the checkpoint has {len(grants)} grants of {len(set(ids))} devices, "
            f"not {load.pods} of {load.pods * load.each}"
        )


@contextmanager
def _plugin(document: str, log: BinaryIO) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dray.bench.kubelet_plugin", document], stdout=log, stderr=log
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
