"""No secret of `dray up` is told to others: not in the process list, not in what it writes for people, not by a file's mode."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.up.place import RunningUp, UpPlace
from tests.up.up_program import UpProgram, dray
from tests.waiting import block_until

POD = """
apiVersion: v1
kind: Pod
metadata: {name: hello}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [echo, hello]}]
"""


@pytest.fixture(scope="module")
def up() -> Iterator[UpProgram]:
    directory = Path(tempfile.mkdtemp(prefix="dray-secrets-"))
    program = UpProgram(UpPlace(directory / "up"))
    try:
        program.start("--log-level", "debug")
        yield program
    finally:
        program.end()
        shutil.rmtree(directory, ignore_errors=True)


def secrets_of(data_dir: Path) -> dict[str, Path]:
    """Every token and every line of every private key, with the file that has it."""
    found = {}
    for path in sorted(data_dir.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix == ".token":
            found[path.read_text().strip()] = path
        elif path.suffix == ".kubeconfig":
            found |= dict.fromkeys(
                re.findall(r"(?:token|client-key-data): *\"?([\w.=/+-]+)", path.read_text()), path
            )
        elif path.suffix == ".key":
            lines = path.read_text().splitlines()
            found |= {line: path for line in lines if len(line) > 32 and not line.startswith("-----")}
    return found


def process_list() -> dict[str, str]:
    """The words and the environment of all processes, as far as they may be read."""
    shown = {}
    for entry in Path("/proc").iterdir():
        for name in ("cmdline", "environ") if entry.name.isdigit() else ():
            with contextlib.suppress(OSError):
                shown[f"{entry.name} {name}"] = (entry / name).read_bytes().decode(errors="replace")
    return shown


def test_secrets_stay_in_their_files(up: UpProgram, tmp_path: Path) -> None:
    known = up.place.read(RunningUp)
    assert known is not None
    (tmp_path / "pod.yaml").write_text(POD)
    shown = [dray("apply", "-f", str(tmp_path / "pod.yaml"), *up.flag)]

    def has_run() -> bool:
        answer = dray("get", "pods", "-o", "json", *up.flag)
        return '"Succeeded"' in answer.stdout

    block_until(has_run, "the pod")
    asked = ("get pods -o yaml", "status -o json", "describe pod hello", "events")
    shown += [dray(*words.split(), *up.flag) for words in asked]
    place = up.place.data_dir
    secrets = secrets_of(place)
    assert {path.suffix for path in secrets.values()} == {".token", ".kubeconfig", ".key"}

    processes = process_list()
    assert f"{known.pid} cmdline" in processes
    texts = {f"process {number}": text for number, text in processes.items()}
    texts |= {
        "stdout": up.out,
        "stderr": up.err,
        "up.json": up.place.running_file.read_text(),
    }
    texts |= {f"command {at}": answer.stdout + answer.stderr for at, answer in enumerate(shown)}
    texts |= {str(path): path.read_text(errors="replace") for path in place.rglob("*.log") if path.is_file()}
    assert up.err
    told = {(where, str(secrets[one])) for where, text in texts.items() for one in secrets if one in text}
    assert told == set()


def test_files_with_secrets_are_for_their_owner_alone(up: UpProgram) -> None:
    place = up.place.data_dir
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    open_files = {
        str(path): oct(path.stat().st_mode)
        for path in {
            *secrets_of(place).values(),
            place / "apiserver" / "tokens.json",
            place / "apiserver" / "store.db",
        }
        if stat.S_IMODE(path.stat().st_mode) & 0o077 or path.stat().st_uid != os.geteuid()
    }
    assert open_files == {}
