from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dray.apiserver.access.identity import admin, node, reader
from dray.apiserver.access.service_accounts import ISSUER
from dray.apiserver.access.tokens import Tokens
from dray.errors import DeniedError, Error, HardwareError, InvalidError


def test_a_token_is_its_users_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data" / "tokens.json"
    tokens = Tokens(path)
    first, second = tokens.issue(admin()), tokens.issue(node("n1"))
    assert first != second
    for found in (tokens, Tokens(path)):
        assert found.identity(f"Bearer {first}") == admin()
        assert found.identity(f"bearer  {second} ") == node("n1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first not in path.read_text() and second not in path.read_text()


def test_several_tokens_of_one_user_and_their_end(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    old, new, other = tokens.issue(reader()), tokens.issue(reader()), tokens.issue(admin())
    assert tokens.identity(f"Bearer {old}") == tokens.identity(f"Bearer {new}") == reader()
    assert tokens.revoke("reader") == 2 and tokens.revoke("reader") == 0
    for token in (old, new):
        with pytest.raises(DeniedError, match="not known"):
            Tokens(tmp_path / "tokens.json").identity(f"Bearer {token}")
    assert tokens.identity(f"Bearer {other}") == admin()


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "Bearer x", "Bearer \udcff", "x"])
def test_a_header_that_is_no_token_of_ours_is_a_401(tmp_path: Path, header: str) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.issue(admin())
    with pytest.raises(DeniedError) as caught:
        tokens.identity(header)
    assert not caught.value.authenticated


def test_without_a_header_nobody_is_known(tmp_path: Path) -> None:
    assert Tokens(tmp_path / "tokens.json").identity("") is None


@pytest.mark.parametrize("text", ["", "{", '{"tokens": [{"user": "a"}]}', '{"others": []}', "[]"])
def test_a_damaged_file_is_told_and_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(text)
    with pytest.raises(HardwareError, match="not a file of tokens"):
        Tokens(path)
    assert path.read_text() == text


def test_a_token_that_could_not_be_kept_is_not_given(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "directory")
    (tmp_path / "directory").mkdir()
    for change in (lambda: tokens.issue(admin()), lambda: tokens.revoke("admin")):
        with pytest.raises(InvalidError, match="it is a directory"):
            change()


def test_a_running_server_sees_what_another_process_changes(tmp_path: Path) -> None:
    serving, other = Tokens(tmp_path / "tokens.json"), Tokens(tmp_path / "tokens.json")
    token = other.issue(reader())
    assert serving.identity(f"Bearer {token}") == reader()
    kept = serving.issue(admin())
    other.revoke("reader")
    assert serving.identity(f"Bearer {kept}") == admin()
    with pytest.raises(DeniedError, match="not known"):
        serving.identity(f"Bearer {token}")


def test_a_file_that_is_damaged_later_ends_no_token_and_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens = Tokens(path)
    token = tokens.issue(admin())
    path.write_text("{")
    assert tokens.identity(f"Bearer {token}") == admin()
    with pytest.raises(HardwareError, match="not a file of tokens"):
        tokens.issue(reader())
    assert path.read_text() == "{"


def test_two_writers_at_once_do_not_lose_each_others_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first, second = Tokens(path), Tokens(path)
    issued = [(one, one.issue(reader())) for one in (first, second, first, second)]
    assert all(Tokens(path).identity(f"Bearer {token}") == reader() for _, token in issued)


def test_one_of_two_users_loses_one_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.issue(admin())
    tokens.issue(reader())
    assert tokens.revoke("reader") == 1


def test_a_token_is_for_this_server_alone(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.issue(admin())
    assert tokens.known(token, ["another", ISSUER]) == (admin(), (ISSUER,))
    with pytest.raises(DeniedError, match="for another audience") as caught:
        tokens.known(token, ["another"])
    assert not caught.value.authenticated


def test_a_signed_token_is_not_known_where_there_are_no_service_accounts(tmp_path: Path) -> None:
    with pytest.raises(DeniedError, match="not known to this server"):
        Tokens(tmp_path / "tokens.json").known("a.b.c")


def test_a_place_that_cannot_be_used_is_told_as_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Error, match="read"):
        Tokens(tmp_path / "file" / "tokens.json")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(Error, match="make the directory"):
        Tokens(tmp_path / "link" / "below" / "tokens.json").issue(admin())


def test_a_damaged_file_is_told_once_until_it_is_another_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every request looks at it."""
    path = tmp_path / "tokens.json"
    tokens = Tokens(path)
    token = tokens.issue(admin())
    for text in ("{", "{", "[]", "[]"):
        path.write_text(text)
        for _ in range(3):
            assert tokens.identity(f"Bearer {token}") == admin()
    told = [one for one in caplog.records if "cannot be read again" in one.getMessage()]
    assert len(told) == 2
