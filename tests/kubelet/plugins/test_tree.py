from __future__ import annotations

import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.kubelet.plugins.tree import Sockets, SocketTree
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.waiting import wait_until


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


class Seen:
    """The newest that was told, with paths below the root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sockets: Sockets = {}
        self.times = 0

    def tell(self, sockets: Sockets) -> None:
        self.sockets = {str(Path(path).relative_to(self.root)): at for path, at in sockets.items()}
        self.times += 1

    @property
    def names(self) -> set[str]:
        return set(self.sockets)


@asynccontextmanager
async def following(root: Path) -> AsyncIterator[Seen]:
    seen = Seen(root)
    async with running(SocketTree(root, SystemClock()).follow(seen.tell), name="tree"):
        await wait_until(lambda: seen.times)
        yield seen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "registry"
    root.mkdir()
    return root


async def test_sockets_that_are_there_already_also_deep_down(root: Path) -> None:
    (root / "one" / "two").mkdir(parents=True)
    for name in ("a", "one/b", "one/two/c"):
        make_socket(root / name)
    async with following(root) as seen:
        await wait_until(lambda: seen.names == {"a", "one/b", "one/two/c"})


async def test_sockets_come_and_go(root: Path) -> None:
    async with following(root) as seen:
        make_socket(root / "a")
        await wait_until(lambda: seen.names == {"a"})
        (root / "new").mkdir()
        make_socket(root / "new" / "b")
        await wait_until(lambda: seen.names == {"a", "new/b"})
        kept = seen.sockets["a"]
        (root / "new" / "deep").mkdir()
        make_socket(root / "new" / "deep" / "c")
        await wait_until(lambda: seen.names == {"a", "new/b", "new/deep/c"})
        shutil.rmtree(root / "new")
        await wait_until(lambda: seen.names == {"a"})
        assert seen.sockets["a"] == kept
        (root / "a").unlink()
        await wait_until(lambda: not seen.names)


async def test_what_is_not_a_plugin_is_not_seen(root: Path) -> None:
    make_socket(root / ".hidden")
    (root / ".folder").mkdir()
    make_socket(root / ".folder" / "a")
    (root / "file").write_text("")
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / ".hidden")
    (root / "loop").symlink_to(root)
    async with following(root) as seen:
        make_socket(root / "a")
        await wait_until(lambda: seen.names == {"a"})
        make_socket(root / ".later")
        make_socket(root / "b")
        await wait_until(lambda: "b" in seen.names)
        assert seen.names == {"a", "b"}


async def test_a_socket_that_was_replaced_is_another_one(root: Path) -> None:
    make_socket(root / "a")
    make_socket(root / "b")
    async with following(root) as seen:
        kept, told = seen.sockets["b"], {seen.sockets["a"]}
        for _ in range(3):
            (root / "a").unlink()
            make_socket(root / "a")
            await wait_until(lambda: seen.sockets.get("a", 0) not in {0, *told})
            told.add(seen.sockets["a"])
            assert seen.sockets["b"] == kept


async def test_the_root_may_come_late_and_be_replaced(root: Path) -> None:
    root.rmdir()
    async with following(root) as seen:
        assert not seen.names
        root.mkdir()
        make_socket(root / "a")
        await wait_until(lambda: seen.names == {"a"})
        shutil.rmtree(root)
        await wait_until(lambda: not seen.names)
        (root / "sub").mkdir(parents=True)
        make_socket(root / "sub" / "b")
        await wait_until(lambda: seen.names == {"sub/b"})
