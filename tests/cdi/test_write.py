from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dray.cdi.registry import read_registry
from dray.cdi.spec import Edits, NodeEdit, Spec, SpecDevice, read_spec
from dray.cdi.write import encode_spec, remove_spec, spec_name, spec_path, write_spec
from dray.errors import DeniedError, InvalidError, UnavailableError
from tests.campaign import campaign
from tests.waiting import PATIENCE


def spec(number: int, size: int = 1) -> Spec:
    nodes = tuple(NodeEdit(f"/dev/{number}/{node}") for node in range(size))
    return Spec("0.5.0", "example.com/gpu", (SpecDevice("0", Edits((f"A={number}",), nodes)),))


def test_names() -> None:
    assert spec_name("example.com/gpu") == "example.com-gpu"
    assert spec_name("example.com/gpu", "ns/claim") == "example.com-gpu_ns_claim"
    with pytest.raises(InvalidError, match="kind 'nonsense': must be a vendor and a class"):
        spec_name("nonsense")
    assert spec_path(Path("/x"), "a.json") == Path("/x/a.json")
    assert spec_path(Path("/x"), "a.b") == Path("/x/a.b.yaml")
    for name in ("../a", "a/b", "a\0", ".json", "a" * 251):
        with pytest.raises(InvalidError, match="cannot be the name of a CDI file"):
            spec_path(Path("/x"), name)


@pytest.mark.parametrize("name", ["a", "a.yaml", "a.json"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "run" / "cdi"
    path = write_spec(directory, spec(1), name)
    assert path.name == (name if "." in name else "a.yaml")
    assert read_spec(path.read_bytes(), "f").spec == spec(1)
    assert path.read_text().startswith("{" if name == "a.json" else "---\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(directory.stat().st_mode) & 0o700 == 0o700
    assert write_spec(directory, spec(2), name) == path
    assert [entry.name for entry in directory.iterdir()] == [path.name]
    assert read_registry([directory]).devices["example.com/gpu=0"].spec == spec(2)
    remove_spec(directory, name)
    remove_spec(directory, name)
    assert list(directory.iterdir()) == []
    remove_spec(tmp_path / "none-such", name)


@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_odd_characters_come_back(ending: str) -> None:
    odd = Spec(
        "1.0.0", "a/b", (SpecDevice("d", Edits(env=("A=\x00\x1b\x7f\x85\u2028\ufeff\U0001f600 \n\t'\"",))),)
    )
    assert read_spec(encode_spec(odd, ending), "f").spec == odd


def test_a_spec_with_faults_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="must not be empty"):
        write_spec(tmp_path, Spec("0.5.0", "a/b", (SpecDevice("d", Edits()),)), "a")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidError, match=r"cannot write .*: a part of the path is not a directory"):
        write_spec(tmp_path / "file" / "cdi", spec(1), "a")
    (tmp_path / "a.yaml").mkdir()
    with pytest.raises((InvalidError, DeniedError, UnavailableError), match="cannot write"):
        write_spec(tmp_path, spec(1), "a")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_scanner_never_sees_half_a_file(tmp_path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        for number in range(campaign(30, 2_000)):
            write_spec(tmp_path, spec(number, size=200), "a")
        done.set()

    write_spec(tmp_path, spec(0, size=200), "a")
    writer = threading.Thread(target=write)
    writer.start()
    scans = 0
    while not done.is_set() or not scans:
        registry = read_registry([tmp_path])
        assert registry.broken == ()
        found = registry.devices["example.com/gpu=0"].spec.devices[0].container_edits
        assert len(found.device_nodes) == 200
        scans += 1
    writer.join(timeout=60)


WRITER = """
import itertools, sys
from pathlib import Path
from dray.cdi.write import write_spec
from tests.cdi.test_write import spec
for number in itertools.count():
    write_spec(Path(sys.argv[1]), spec(number, size=100), "a")
    if not number:
        print("ready", flush=True)
"""


def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    for delay in range(campaign(2, 50)):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "."}
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            deadline = threading.Event()
            deadline.wait(0.05 + 0.003 * delay)
            writer.send_signal(signal.SIGKILL)
            writer.wait(timeout=PATIENCE)
        registry = read_registry([tmp_path])
        assert (registry.broken, len(registry.devices)) == ((), 1)
        assert {entry.suffix for entry in tmp_path.iterdir()} <= {".yaml", ".tmp"}
