"""The flags of `dray up`, and what it shows."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from msgspec import structs

from dray.apiserver.http.server import Address
from dray.cli import up
from dray.cli.main import make_parser
from dray.cli.up_view import next_commands, picture
from dray.errors import InvalidError
from dray.semantics.features import Gate
from dray.up.place import RunningUp, UpPlace, default_data_dir
from tests.cli.terminal import Terminal


def parse(*words: str) -> argparse.Namespace:
    return make_parser(["up"]).parse_args(["up", *words])


def running(**changes: str) -> RunningUp:
    known = RunningUp(
        pid=1,
        start_time=1,
        version="1.2",
        server="https://127.0.0.1:6443",
        kubeconfig="/d/apiserver/admin.kubeconfig",
        node="one",
        runtime="process",
        containers="plain processes of this machine, not isolated from it",
        devices="4 generic (2 unhealthy)",
        data_dir="/d",
    )
    return structs.replace(known, **changes)


def test_flags_become_options() -> None:
    options = up.make_options(
        parse(
            "--data-dir",
            "d",
            "--listen",
            "[::1]:7443",
            "--sim",
            "laptop",
            "--no-dashboard",
            "--node-name",
            "n",
            "--allow-host",
            "a.example",
        )
    )
    assert options.allowed_hosts == ("a.example",)
    assert options.data_dir == Path("d").absolute()
    assert options.listen == Address("::1", 7443)
    assert (options.sim, options.dashboard, options.node_name) == ("laptop", False, "n")
    plain = up.make_options(parse())
    assert (plain.data_dir, plain.listen, plain.config) == (default_data_dir(), None, None)


@pytest.mark.parametrize("text", ["none", "here", "127.0.0.1", "127.0.0.1:99999"])
def test_a_bad_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="--listen"):
        up.make_options(parse("--listen", text))


def test_in_the_foreground_it_is_quiet_and_in_the_background_it_logs() -> None:
    assert parse().log_level == "warning"
    assert parse("--log-level", "debug").log_level == "debug"
    assert make_parser(["agent"]).parse_args(["agent", "--config", "x"]).log_level == "info"
    words = up.words_of(parse())
    assert words[words.index("--log-level") + 1] == "info"


def test_a_process_in_another_directory_gets_the_same_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").touch()
    said = "--data-dir d --listen 127.0.0.1:0 --config c.yaml --sim fleet.yaml --runtime cri --node-name n --no-dashboard"
    said += " --allow-host a.example --allow-host b.example:1 --metrics-token-file token"
    said += " --feature-gates DRAWorkloadResourceClaims=true"
    first = up.make_options(parse(*said.split(), "--detach"))
    words = up.words_of(parse(*said.split(), "--detach"))
    assert "--detach" not in words and "--supervise" not in words
    monkeypatch.chdir("/")
    second = up.make_options(parse(*words))
    assert second.sim == str(tmp_path / "fleet.yaml")
    assert first.metrics_token_file == second.metrics_token_file == tmp_path / "token"
    assert second.feature_gates == {Gate.WORKLOAD_RESOURCE_CLAIMS: True}
    assert second.data_dir == tmp_path / "d" and second.config == tmp_path / "c.yaml"
    for name in (
        "listen",
        "allowed_hosts",
        "runtime",
        "node_name",
        "dashboard",
        "host_root",
        "feature_gates",
    ):
        assert getattr(first, name) == getattr(second, name)
    named = up.words_of(parse("--sim", "laptop"))
    assert named[named.index("--sim") + 1] == "laptop"


def test_the_picture() -> None:
    lines = picture(running(sim="laptop", dashboard="http://127.0.0.1:9620", unready="a: starting\nb: away"))
    text = "\n".join(lines)
    assert "Dray 1.2 runs on this machine." in text
    assert "  devices      4 generic (2 unhealthy)" in text
    assert "profile laptop: these devices and nodes do not exist" in text
    assert "process: plain processes of this machine, not isolated from it" in text
    assert "Not offered yet: a: starting; b: away" in text
    assert "\033" not in text
    assert "\033" in "\n".join(picture(running(), colour=True))


def test_a_machine_without_devices_is_told_what_to_try() -> None:
    text = "\n".join(picture(running(devices="")))
    assert "none found" in text and "--sim laptop" in text


def test_the_next_commands_work_as_they_are() -> None:
    assert next_commands(running())[0] == "dray get devices --data-dir /d"
    assert next_commands(running(data_dir=str(default_data_dir())))[0] == "dray get devices"
    assert next_commands(running())[1] == "kubectl --kubeconfig /d/apiserver/admin.kubeconfig get nodes"


def test_the_end_says_how_to_end_it() -> None:
    assert "Ctrl-C" in picture(running())[-1]
    assert "`dray down`" in picture(running(supervisor="dray"))[-1]


def test_the_unit_of_systemd_starts_it_as_it_wants_to_be_started() -> None:
    unit = Path("deploy/systemd/dray.service")
    facts = dict(
        line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and line[0] not in "#["
    )
    program, *words = facts["ExecStart"].split()
    assert program.endswith("/dray") and words[-1] == "$DRAY_FLAGS"
    arguments = make_parser(words).parse_args(words[:-1])
    assert arguments.command == "up" and not arguments.detach
    assert up.make_options(arguments).data_dir == Path("/var/lib/dray/up")
    # It says when it is ready; its containers are not to be ended with it; it comes back whatever happened.
    assert (facts["Type"], facts["KillMode"], facts["Restart"]) == ("notify", "process", "always")
    if (verify := shutil.which("systemd-analyze")) is not None:
        text = unit.read_text().replace(program, "/bin/true")
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / unit.name
            copy.write_text(text)
            told = subprocess.run([verify, "verify", str(copy)], capture_output=True, text=True, check=False)
        assert unit.name not in told.stderr, told.stderr


async def test_a_person_is_shown_the_way_into_the_dashboard_and_a_file_is_not() -> None:
    assert "#token=" not in "\n".join(picture(running(dashboard="http://127.0.0.1:9620")))
    with tempfile.TemporaryDirectory(prefix="dray-") as short:
        place = UpPlace(Path(short) / "d")
        words = ("up", "--data-dir", str(place.data_dir), "--runtime", "process", "--listen", "127.0.0.1:0")
        terminal = Terminal(*words)
        await terminal.wait("/#token=")
        await terminal.wait("Ctrl-C ends it")
        terminal.press("\x03")
        assert await terminal.end() == 0
