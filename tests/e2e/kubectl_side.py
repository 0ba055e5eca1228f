"""The kubectl script run on one API server, and its answers without what no two servers have in common."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.kubectl_objects import FILES
from tests.waiting import PATIENCE

NAMESPACE: Final = "kubectl-agrees"
_TIMEOUT_S: Final = 30.0
_MARK: Final = re.compile(r"(names|within|watch (?P<lines>\d+)): (?P<rest>.*)")
_VARYING: Final = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4})", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r'("?resourceVersion"?: ?)"\d+"', r"\1RV"),
    (r"https://127\.0\.0\.1:\d+", "SERVER"),
    (r"127\.0\.0\.1:\d+", "SERVER"),
    (r"(?<=[\s(])(\d+[smhdy])+(?=[\s)]|$)", "AGE"),
    (r"(LIVE|MERGED)-\d+/", r"\1/"),
    (r"kubectl-\S*edit-\S*\.yaml", "EDITED"),
    (r"(Resource Version:\s+)\d+", r"\1RV"),
    (r"(?m)^[EIW]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
    (r"\x1b\[[0-9;]*m", ""),
    (r"(?m)[ \t]+$", ""),
    (r"(?<=\S)[ \t]{2,}", "  "),
)
_EXPLAINED: Final = re.compile(r" *\S+\t<\S+>( -required-)?|(GROUP|KIND|VERSION|FIELD): .*| *enum: .*")
_NOT_THERE: Final = re.compile(r"kubevirt|scheduling\.k8s\.io/v1alpha2|podgroups|workloads")
"""Kinds that the real API server serves only when it is told to, or by definitions of KubeVirt."""


@dataclass(frozen=True)
class Outcome:
    """What one invocation did."""

    code: int
    out: str
    err: str

    def told(self) -> str:
        """For a message about a difference."""
        return f"exit {self.code}\n{self.out}{self.err}"


@dataclass(frozen=True)
class Line:
    """One line of the script."""

    text: str

    @property
    def mark(self) -> str:
        """`names`, `within`, `watch N` or nothing."""
        found = _MARK.fullmatch(self.text)
        return found[1] if found else ""

    @property
    def command(self) -> str:
        """What is typed."""
        found = _MARK.fullmatch(self.text)
        return found["rest"] if found else self.text

    def agrees(self, real: Outcome, ours: Outcome) -> bool:
        """Whether ours is as good as the real one."""
        if self.mark == "within":
            told = {line for line in ours.out.splitlines() if not _NOT_THERE.search(line)}
            return ours.code == real.code and told <= set(real.out.splitlines())
        if self.mark == "names" and real.code == 0:
            return ours.code == 0 and explained(ours.out) == explained(real.out)
        return real == ours


def explained(text: str) -> list[str]:
    """The names and types that `explain` shows, with the words that may stand in a field."""
    return [" ".join(line.split()) for line in text.splitlines() if _EXPLAINED.fullmatch(line.rstrip())]


class Side:
    """kubectl on one API server, in a directory with the files of the script."""

    def __init__(self, kubectl: Path, kubeconfig: Path, directory: Path) -> None:
        self._argv = [str(kubectl), f"--kubeconfig={kubeconfig}", f"--cache-dir={directory / 'cache'}"]
        self._argv.append(f"--namespace={NAMESPACE}")
        self._directory = directory / "files"
        self._directory.mkdir(parents=True)
        for name, text in FILES.items():
            (self._directory / name).write_text(text)
        editor = directory / "editor"
        editor.write_text(
            "#!/bin/sh\nsed -i -e 's/colour: red/colour: green/' -e 's/tier: two/tier: edited/' \"$1\"\n"
        )
        editor.chmod(0o755)
        self._env = {
            "HOME": str(directory),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(directory),
            "KUBE_EDITOR": str(editor),
            "LC_ALL": "C",
            "GOGC": "off",  # 556 short lives: two fifths of the processor time of most of them is garbage collection
        }

    def run(self, line: Line) -> Outcome:
        """One line."""
        if line.mark.startswith("watch"):
            return self._watched(line, int(line.mark.split()[1]))
        try:
            done = subprocess.run(
                [*self._argv, *shlex.split(line.command)],
                cwd=self._directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(-1, "", "it does not end\n")
        out = _ordered(done.stdout) if "--raw" in line.command else done.stdout
        return Outcome(done.returncode, self._usual(out), self._usual(done.stderr))

    def _watched(self, line: Line, lines: int) -> Outcome:
        """What a watch tells while other commands run; it is ended when it has told enough, or too late."""
        watch, *others = line.command.split(" && ")
        told = self._directory.parent / "watched"
        with told.open("wb") as out:
            process = subprocess.Popen(
                [*self._argv, *shlex.split(watch)], cwd=self._directory, env=self._env, stdout=out, stderr=out
            )
        try:
            _wait_lines(told, 1)
            for other in others:
                self.run(Line(other))
            _wait_lines(told, lines)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)
        return Outcome(0, self._usual(told.read_text()), "")

    def _usual(self, text: str) -> str:
        text = text.replace(str(self._directory.parent), "DIR")
        for pattern, instead in _VARYING:
            text = re.sub(pattern, instead, text)
        return text


def _ordered(text: str) -> str:
    """JSON as the server wrote it, with its fields in order; a text that is none as it is."""
    try:
        return json.dumps(json.loads(text), sort_keys=True, indent=1)
    except json.JSONDecodeError:
        return text


def _wait_lines(path: Path, count: int) -> None:
    """Until a file has so many lines, or long enough for a server to have written them."""
    end = time.monotonic() + 10
    while len(path.read_text().splitlines()) < count and time.monotonic() < end:
        time.sleep(0.02)
