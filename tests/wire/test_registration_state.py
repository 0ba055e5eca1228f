from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dray.wire.registration_state import REGISTERED, WAITING, OwnSocket, RegistrationPhase, RegistrationState


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (WAITING, "waiting for kubelet"),
        (RegistrationState(RegistrationPhase.REFUSED, "taken"), "refused: taken"),
        (
            RegistrationState(RegistrationPhase.FAILED, "no answer", 2.0),
            "failed: no answer, next try in 2 s",
        ),
    ],
)
def test_states_as_people_read_them(state: RegistrationState, text: str) -> None:
    assert str(state) == text


def test_a_new_server_is_starting() -> None:
    assert RegistrationState().phase is RegistrationPhase.STARTING
    assert RegistrationState(RegistrationPhase.REGISTERED) == REGISTERED


def listen(path: Path) -> socket.socket:
    """A socket file that somebody holds."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    return listener


def test_our_socket_has_its_name_until_it_is_removed_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "plugin.sock"
    with listen(path):
        ours = OwnSocket.at(path)
        assert ours.is_there
        path.rename(tmp_path / "aside")
        assert not ours.is_there
        with listen(path):
            assert not ours.is_there
        (tmp_path / "aside").rename(path)
        assert ours.is_there
        path.unlink()
        assert not ours.is_there


def test_a_socket_that_was_gone_at_the_first_look_is_never_there(tmp_path: Path) -> None:
    path = tmp_path / "plugin.sock"
    ours = OwnSocket.at(path)
    with listen(path):
        assert not ours.is_there


def test_a_link_to_our_socket_is_not_our_socket(tmp_path: Path) -> None:
    path = tmp_path / "plugin.sock"
    with listen(path):
        ours = OwnSocket.at(path)
        path.rename(tmp_path / "aside")
        path.symlink_to("aside")
        assert not ours.is_there
