from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.cli.doctor import lines
from dray.cli.main import main
from dray.doctor.finding import fault, note, ok


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as found:
        yield Path(found)


def _laptop(path: Path, *more: str) -> list[str]:
    return ["doctor", "--laptop", "--data-dir", str(path / "d"), "--kubeconfig", "none", *more]


def test_a_laptop_where_nothing_is_wrong(short_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_laptop(short_path, "-o", "json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hasFault"] is False
    assert {"check", "level", "what", "why", "fix"} == set(found["findings"][0])
    assert main(_laptop(short_path)) == 0
    shown = capsys.readouterr().out
    assert "Nothing is broken" in shown
    assert "\033" not in shown


def test_a_node_without_a_kubelet_is_a_fault_with_a_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--node", "--kubelet-dir", str(tmp_path / "k"), "--kubeconfig", "none"]
    words += ["--device-plugin-dir", str(tmp_path / "k" / "d"), "--state-dir", str(tmp_path / "s")]
    assert main([*words, "--cdi-dir", str(tmp_path / "c"), "--bundle", str(tmp_path / "b.tar.gz")]) == 1
    shown = capsys.readouterr().out
    assert "fault     kubelet-reachable" in shown
    assert "fix: start the kubelet" in shown
    assert "Mend the faults first" in shown
    assert "Support bundle" in shown
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600


def test_a_data_directory_that_is_too_long_for_sockets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_laptop(tmp_path / ("x" * 60))) == 1
    assert "choose a shorter directory" in capsys.readouterr().out


def test_bad_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_laptop(tmp_path, "--host-root", str(tmp_path / "none"))) == 2
    assert main(["doctor", "--laptop", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert main(_laptop(tmp_path, "--bundle", str(tmp_path / "no" / "b.tar.gz"))) == 1
    assert "no/b.tar.gz" in capsys.readouterr().err


def test_what_is_shown() -> None:
    found = [ok("a", "fine"), note("bcd", "so\x1b[31m it is"), fault("e", "broken", "it matters", "mend it")]
    assert list(lines(found, {})) == [
        "ok        a    fine",
        "note      bcd  so\ufffd[31m it is",
        "fault     e    broken",
        "               why: it matters",
        "               fix: mend it",
        "",
        "1 fault, 0 warnings, 1 note, 1 ok. Mend the faults first: what they name does not work.",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_without_rights_it_says_so_and_does_not_crash(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a fork, because that user may not read this Python."""
    for name in ("k/device-plugins", "k/pod-resources", "k/plugins", "k/plugins_registry", "s"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "containerd.toml").write_text("")
    for name in ("k", "s", "containerd.toml"):
        (tmp_path / name).chmod(0o600)
    for directory in (tmp_path, *list(tmp_path.parents)[:2]):
        directory.chmod(0o755)
    words = ["doctor", "--node", "--kubelet-dir", str(tmp_path / "k"), "--kubeconfig", "none", "-o", "json"]
    words += ["--device-plugin-dir", str(tmp_path / "k/device-plugins"), "--state-dir", str(tmp_path / "s")]
    words += [
        "--containerd-config",
        str(tmp_path / "containerd.toml"),
        "--data-dir",
        str(tmp_path / "k" / "d"),
    ]
    main(words)  # everything is imported now
    capfd.readouterr()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        os._exit(main(words))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = json.loads(capfd.readouterr().out)["findings"]
    denied = {one["check"] for one in found if one["fix"] == "run as root"}
    assert code in (0, 1)
    assert {"directory-device-plugins", "kubelet-reachable", "cdi-enabled", "checkpoints"} <= denied


def test_help_stays_light() -> None:
    code = (
        "import sys; from dray.cli.main import make_parser; make_parser(['doctor', '--help']);"
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'grpclib', 'opentelemetry')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
