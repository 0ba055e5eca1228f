"""Which cluster a verb talks to: flags, environment, a running `dray up`, files, in this order."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

import pytest

from dray.cli.cluster import Asked, add_cluster_arguments, ask, find_cluster
from dray.cli.main import main
from dray.errors import InvalidError, NotFoundError, UnavailableError
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.up.place import RunningUp, UpPlace


def config(path: Path, port: int, *contexts: str) -> Path:
    """A kubeconfig whose server tells which one it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = contexts or ("only",)
    entries = ", ".join(
        f"{{name: {name}, context: {{cluster: c, user: u, namespace: of-{name}}}}}" for name in names
    )
    path.write_text(
        f"{{apiVersion: v1, kind: Config, current-context: {names[0]}, contexts: [{entries}], users: [{{name: u, user: {{}}}}],"
        f" clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]}}"
    )
    return path


def port_of(*arguments: object) -> int:
    return int(find_cluster(*arguments).server.rpartition(":")[2])  # type: ignore[arg-type]


def start_up(directory: Path, port: int) -> Path:
    """What a `dray up` that runs leaves in its directory: it is this process."""
    kubeconfig = config(directory / "apiserver" / "admin.kubeconfig", port)
    place = UpPlace(directory)
    pid = os.getpid()
    started = start_time(pid)
    assert started is not None
    place.write(
        RunningUp(
            pid=pid,
            start_time=started,
            boot=boot_id(),
            version="1",
            server=f"http://127.0.0.1:{port}",
            kubeconfig=str(kubeconfig),
        )
    )
    return directory


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any cluster."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root has a directory outside of any home
    return tmp_path


def test_the_first_way_that_leads_to_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidError) as nowhere:
        find_cluster(None, None)
    assert str(nowhere.value) == (
        f"no cluster: no `dray up` runs here and {home}/.kube/config does not exist; start one with `dray up`, or give "
        "--kubeconfig FILE or KUBECONFIG"
    )
    config(home / ".kube" / "config", 1001, "one", "two")
    assert port_of(None, None) == 1001
    start_up(home / "state" / "dray", 1002)
    assert port_of(None, None) == 1002
    monkeypatch.setenv("KUBECONFIG", str(config(home / "env", 1003)))
    assert port_of(None, None) == 1003
    assert port_of(config(home / "flag", 1004), None) == 1004
    other = start_up(home / "other", 1005)
    assert port_of(None, None, other) == 1005
    with pytest.raises(InvalidError, match="--data-dir and --kubeconfig both say which cluster"):
        find_cluster(home / "flag", None, other)


def test_a_context_is_looked_for_in_kubeconfigs(home: Path) -> None:
    start_up(home / "state" / "dray", 1002)
    config(home / ".kube" / "config", 1001, "one", "two")
    found = find_cluster(None, "two")
    assert (found.server, found.namespace) == ("http://127.0.0.1:1001", "of-two")


def test_a_dray_up_that_died_counts_as_none(home: Path) -> None:
    directory = start_up(home / "state" / "dray", 1002)
    record = (directory / "up.json").read_text()
    (directory / "up.json").write_text(record.replace('"startTime":', '"startTime":1'))
    with pytest.raises(InvalidError, match="no `dray up` runs here"):
        find_cluster(None, None)
    with pytest.raises(
        NotFoundError, match=f"no `dray up` runs on {directory}; start it with `dray up --data-dir"
    ):
        find_cluster(None, None, directory)


def test_names_are_looked_for_where_the_context_or_the_flag_says(home: Path) -> None:
    parser = argparse.ArgumentParser()
    add_cluster_arguments(parser, everywhere=True)
    path = str(config(home / "flag", 1004, "here"))

    async def tell(asked: Asked) -> tuple[str, str | None]:
        await asyncio.sleep(0)
        return asked.namespace, asked.selection().namespace

    for words, wanted in (
        ([], ("of-here", "of-here")),
        (["-n", "ml"], ("ml", "ml")),
        (["-A"], ("of-here", None)),
    ):
        assert ask(parser.parse_args(["--kubeconfig", path, *words]), tell) == wanted


def test_a_cluster_that_is_away_is_named_with_its_file(home: Path) -> None:
    parser = argparse.ArgumentParser()
    add_cluster_arguments(parser)
    path = config(home / "flag", 9)

    async def version(asked: Asked) -> object:
        return await asked.client.server_version()

    with pytest.raises(UnavailableError, match=rf"127.0.0.1:9.*\(the address is from {path}"):
        ask(parser.parse_args(["--kubeconfig", str(path)]), version)


def test_explain_talks_to_a_running_dray_up(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_up(home / "state" / "dray", 9)
    assert main(["explain"]) == 3
    assert "127.0.0.1:9" in capsys.readouterr().err
