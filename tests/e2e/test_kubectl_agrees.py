"""One script typed at kubectl, on the real API server and on `dray apiserver`: the same output, messages and exit codes."""

from __future__ import annotations

import difflib
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.testing.kubernetes.control_plane import ControlPlane
from tests.e2e.kubectl_script import PARTS
from tests.e2e.kubectl_side import Line, Outcome, Side
from tests.waiting import PATIENCE

_STRUCTS = "messages show values and changes as the API writes them, not as Go's internal structs"
_WORDS = "what cannot be read is refused in words of our own"
_WHICH = "says which operation of the patch failed, and why"
_TAINT = "a new node has no not-ready taint: the node controller writes one where the node is not ready"
KNOWN: dict[str, str] = {
    "get node kubectl-agrees -o yaml": _TAINT,
    "describe node kubectl-agrees": _TAINT,
    """patch cm settings --type=json -p '[{"op":"test","path":"/data/more","value":"y"}]'""": _WHICH,
    """patch cm settings --type=json -p '[{"op":"remove","path":"/data/none"}]'""": _WHICH,
    "get pods -l 'a in (x'": _WORDS,
    "patch cm settings -p '{'": _WORDS,
    "patch cm settings --type=json -p '{}'": _WORDS,
    """patch cm settings -p '{"data":{"size":1}}'""": _WORDS,
    "create -f pod-sourceless.yaml": _STRUCTS,
    "apply -f pod-changed.yaml": _STRUCTS,
    """patch pod one -p '{"spec":{"nodeName":"elsewhere"}}'""": _STRUCTS,
    "apply -f claim-changed.yaml": _STRUCTS,
    """patch resourceclaim one --type=merge -p '{"spec":{"devices":{"requests":[]}}}'""": _STRUCTS,
    "apply -f deployment-selector.yaml": "a kind kept as raw JSON: its own rules are not known",
    "apply --server-side -f pod-unknown.yaml": "the fault is in the request: 422, not 500",
}
"""Lines with another answer, and why. One that agrees again must be taken out."""
Answers = dict[str, list[tuple[Line, Outcome]]]


@contextmanager
def dray_apiserver(directory: Path) -> Iterator[Path]:
    """The command itself; gives the administrator's kubeconfig."""
    command = [sys.executable, "-m", "dray", "apiserver", f"--data-dir={directory}", "--listen=127.0.0.1:0"]
    log = directory.parent / "apiserver.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        end = time.monotonic() + 30
        while "msg=ready" not in log.read_text():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield directory / "admin.kubeconfig"
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _play(side: Side) -> Answers:
    answers: Answers = {}
    for part, text in PARTS.items():
        lines = [Line(one) for one in text.strip().splitlines()]
        answers[part] = [(line, side.run(line)) for line in lines]
    return answers


@pytest.fixture(scope="module")
def answers(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """The whole script, on both at once."""
    directory = tmp_path_factory.mktemp("kubectl")
    kubectl = apiserver.tools.path("kubectl")
    with dray_apiserver(directory / "data") as kubeconfig, ThreadPoolExecutor(2) as pool:
        real = pool.submit(_play, Side(kubectl, apiserver.kubeconfig, directory / "real"))
        ours = pool.submit(_play, Side(kubectl, kubeconfig, directory / "ours"))
        return real.result(), ours.result()


@pytest.mark.parametrize("part", PARTS)
def test_kubectl_agrees(part: str, answers: tuple[Answers, Answers]) -> None:
    real, ours = answers
    wrong = []
    for (line, theirs), (_, own) in zip(real[part], ours[part], strict=True):
        if line.agrees(theirs, own) == (line.text in KNOWN):
            again = "it agrees now: take it out of KNOWN" if line.text in KNOWN else _difference(theirs, own)
            wrong.append(f"$ kubectl {line.text}\n{again}")
    assert not wrong, f"{len(wrong)} of {len(real[part])} differ (- real, + ours):\n" + "\n".join(wrong)


def _difference(real: Outcome, ours: Outcome) -> str:
    lines = difflib.unified_diff(real.told().splitlines(), ours.told().splitlines(), lineterm="", n=1)
    return "\n".join(list(lines)[2:])


def test_the_script_is_long_enough() -> None:
    lines = [line for text in PARTS.values() for line in text.strip().splitlines()]
    assert len(lines) >= 80
    assert set(KNOWN) <= set(lines)
