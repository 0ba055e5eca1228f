from __future__ import annotations

import socket
from pathlib import Path

from dray.deviceplugin.leftovers import SocketLedger
from dray.wire.sockets import listening


def leave(path: Path) -> None:
    """A socket whose process is gone."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


async def test_dead_sockets_of_ours_go_when_nobody_wants_them(tmp_path: Path) -> None:
    for name in ("kept.sock", "dropped.sock", "foreign.sock"):
        leave(tmp_path / name)
    with SocketLedger(tmp_path / "state" / "sockets", tmp_path) as ledger:
        await ledger.want(["kept.sock", "dropped.sock", "gone.sock"])
    with SocketLedger(tmp_path / "state" / "sockets", tmp_path) as ledger:
        await ledger.want(["kept.sock"])
    assert {path.name for path in tmp_path.glob("*.sock")} == {"kept.sock", "foreign.sock"}


async def test_what_lives_stays_and_is_asked_again(tmp_path: Path) -> None:
    with SocketLedger(tmp_path / "state" / "sockets", tmp_path) as ledger:
        async with listening(tmp_path / "a.sock", mode=0o600) as listener:
            await ledger.want(["a.sock"])
            await ledger.want([])
            assert (tmp_path / "a.sock").exists()
            listener.socket.close()
            (tmp_path / "a.sock").rename(tmp_path / "b.sock")
        (tmp_path / "b.sock").rename(tmp_path / "a.sock")
    with SocketLedger(tmp_path / "state" / "sockets", tmp_path) as ledger:
        await ledger.want([])
    assert not (tmp_path / "a.sock").exists()


async def test_other_files_and_damaged_ledgers_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file.sock").touch()
    state = tmp_path / "state" / "sockets"
    with SocketLedger(state, tmp_path) as ledger:
        await ledger.want(["file.sock"])
        await ledger.want([])
    assert (tmp_path / "file.sock").exists()
    state.write_bytes(b"nonsense")
    leave(tmp_path / "x.sock")
    with SocketLedger(state, tmp_path) as ledger:
        await ledger.want(["y.sock"])
    assert (tmp_path / "x.sock").exists()
