"""What `dray up` chooses by itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dray.apiserver.http.server import Address
from dray.errors import ConflictError, InvalidError, UnavailableError
from dray.up.choice import choose_address, choose_runtime, free_port


def test_runc_for_root_where_it_is() -> None:
    chosen = choose_runtime("auto", is_root=True, find=lambda: "/usr/sbin/runc")
    assert (chosen.name, chosen.why) == ("runc", "containers of /usr/sbin/runc")


@pytest.mark.parametrize(("is_root", "why"), [(True, "there is no runc"), (False, "need root")])
def test_else_plain_processes_that_are_said_not_to_be_isolated(is_root: bool, why: str) -> None:
    chosen = choose_runtime("auto", is_root=is_root, find=lambda: None)
    assert chosen.name == "process"
    assert "not isolated" in chosen.why and why in chosen.why


def test_what_ran_containers_before_goes_on_doing_so() -> None:
    chosen = choose_runtime("auto", "process", is_root=True, find=lambda: "/usr/sbin/runc")
    assert chosen.name == "process" and "not isolated" in chosen.why and "as before" in chosen.why
    assert choose_runtime("runc", "process", is_root=True).name == "runc"
    assert choose_runtime("auto", "nonsense", is_root=False).name == "process"


def test_what_is_asked_for_is_taken_and_what_nobody_knows_is_refused() -> None:
    assert choose_runtime("cri").name == "cri"
    assert "not isolated" in choose_runtime("process").why
    with pytest.raises(InvalidError, match="--runtime 'docker' must be one of auto, runc, cri, process"):
        choose_runtime("docker")


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def kubeconfig(path: Path, port: int) -> Path:
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        f"clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n"
        "users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )
    return path


def test_a_taken_port_is_passed_over(taken: int) -> None:
    assert free_port(taken) not in (0, taken)
    other = free_port()
    assert free_port(taken, other) == other
    with closing(socket.socket()) as second:
        second.bind(("127.0.0.1", other))
        second.listen(1)
        assert other < free_port(other) <= other + 400


def test_the_port_of_before_is_kept(tmp_path: Path) -> None:
    port = free_port()
    assert choose_address(None, kubeconfig(tmp_path / "k", port)) == Address("127.0.0.1", port)


def test_the_port_of_before_is_not_changed_behind_anybodys_back(tmp_path: Path, taken: int) -> None:
    with pytest.raises(ConflictError, match=f"127.0.0.1:{taken}.*kubeconfigs.*give --listen 127.0.0.1:0"):
        choose_address(None, kubeconfig(tmp_path / "k", taken))


def test_a_port_that_was_asked_for_and_is_taken_is_told(tmp_path: Path, taken: int) -> None:
    with pytest.raises(ConflictError, match=f"127.0.0.1:{taken}: address already in use; --listen"):
        choose_address(Address("127.0.0.1", taken), tmp_path / "none")
    with pytest.raises(UnavailableError, match=r"192\.0\.2\.77:1234"):
        choose_address(Address("192.0.2.77", 1234), tmp_path / "none")
    assert choose_address(Address("127.0.0.1", 0), tmp_path / "none") == Address("127.0.0.1", 0)


@pytest.mark.parametrize("text", ["", "no: kubeconfig", "\x00"])
def test_without_a_usable_kubeconfig_a_port_is_chosen(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    assert choose_address(None, tmp_path / "k").port > 0
