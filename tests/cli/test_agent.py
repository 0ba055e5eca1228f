from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import block_until


@contextmanager
def agent(tmp_path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Ended in any case: a test that fails must not wait for an agent that nobody stops."""
    with start(tmp_path, *more) as process:
        try:
            yield process
        finally:
            process.kill()


def start(tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    (tmp_path / "plugins").mkdir(exist_ok=True)
    argv = [sys.executable, "-m", "dray", "agent"]
    argv += [] if "--config" in more else ["--config", str(tmp_path / "agent.yaml")]
    argv += ["--device-plugin-dir", str(tmp_path / "plugins"), "--kubelet-dir", str(tmp_path)]
    argv += ["--state-dir", str(tmp_path / "state"), "--metrics-address", "127.0.0.1:0", *more]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)


def why_unready(address: str) -> bytes:
    """Without a kubelet it never is ready, and it says what is missing."""
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(address.replace("/metrics", "/readyz"))
    assert error.value.code == 503
    with error.value as answer:
        return answer.read()


def wait_line(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"the agent ended before it said {text!r}")


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("{}\n")
    with agent(tmp_path) as process:
        address = wait_line(process, "msg=metrics").split("address=")[1].strip()
        wait_line(process, "msg=serving")
        with urllib.request.urlopen(address) as answer:
            assert b'dray_devices{kind="generic",resource="devices.kubevirt.io/kvm"' in answer.read()
        with urllib.request.urlopen(address.replace("/metrics", "/healthz")) as answer:
            assert answer.read() == b"ok\n"
        block_until(lambda: b"devices.kubevirt.io/kvm: waiting for kubelet" in why_unready(address))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert list((tmp_path / "plugins").iterdir()) == []


def test_two_agents_do_not_share_a_state_directory(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("{}\n")
    with agent(tmp_path) as first:
        wait_line(first, "msg=serving")
        with agent(tmp_path) as second:
            assert second.wait(60) == 1
            assert second.stderr is not None
            last = second.stderr.read().splitlines()[-1]
            assert last.startswith("dray: ") and str(first.pid) in last
        first.terminate()


def test_bad_input_ends_with_2_and_says_all(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("dray:\n  rolle: x\n  unit: y\n")
    with agent(tmp_path) as process:
        assert process.wait(60) == 2
        assert process.stderr is not None
        text = process.stderr.read()
        assert "dray: 2 faults:" in text and "dray.rolle" in text and "dray.unit" in text


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--config", "kubevirt:"], "--config: kubevirt is at an API server; give --kubeconfig"),
        (["--config", "configmap:a"], "--config: 'configmap:a' must be a file, kubevirt:NAMESPACE/NAME"),
        (["--config", "kubevirt:", "--additions", "kubevirt:"], "must be a file or a ConfigMap"),
        (["--additions", "x.yaml"], "--additions: is for --config kubevirt:"),
        (["--kubeconfig", "missing"], "missing: cannot read"),
        (["--node-name", "Node_1"], "--node-name: 'Node_1': "),
    ],
)
def test_flags_about_the_api_server(flags: list[str], text: str, tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("{}\n")
    with agent(tmp_path, *flags) as process:
        assert process.wait(60) == 2
        assert process.stderr is not None
        assert text in process.stderr.read()


def test_without_an_api_server_it_says_that_dra_is_off(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("{}\n")
    with agent(tmp_path, "--kubeconfig", "none") as process:
        wait_line(process, "DRA is off")
        wait_line(process, "msg=serving")
        process.terminate()
        assert process.wait(60) == 0


def test_killed_at_any_moment_the_next_one_starts(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("dray: {sim: {devices: [{name: gpu, shape: gpu, count: 3}]}}\n")
    for delay in (0.05, 0.2, 0.3, 0.4, 0.6):
        process = start(tmp_path)
        time.sleep(delay)
        process.kill()
        process.communicate()
    with agent(tmp_path) as process:
        wait_line(process, "msg=serving")
        process.terminate()
        assert process.wait(60) == 0
    assert list((tmp_path / "plugins").iterdir()) == []
