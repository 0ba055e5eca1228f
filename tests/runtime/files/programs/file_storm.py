"""Change a small tree at random, as fast as it goes.

Arguments: directory, number of changes, seed. Prints "{}" when all are done; some changes find nothing to change.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

TARGETS = ("a/b/t", "link/b/t", "a/b/late/t")
LISTED = "a/b"


def touch(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL))  # a plain open would wait at a FIFO


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def link(path: Path) -> None:
    path.symlink_to(random.choice(["x", "y"]))


def remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
    else:
        shutil.rmtree(path)


def change_a_file(root: Path, rng: random.Random) -> None:
    """Make, drop, replace or rename something that is watched, or its neighbour."""
    make: list[Callable[[Path], None]] = [touch, bind, link, os.mkfifo, Path.mkdir]
    path = root / "a" / "b" / rng.choice(["t", "t", "u", "v", "late", "late/t"])
    action = rng.randrange(4)
    if action == 0:
        rng.choice(make)(path)
    elif action == 1:
        remove(path)
    elif action == 2:
        remove(path)
        rng.choice(make)(path)
    else:
        path.rename(path.with_name(rng.choice("tuv")))


def change_a_parent(root: Path, rng: random.Random) -> None:
    """Swap, drop or bring back a directory above what is watched, or turn the link around."""
    action = rng.randrange(5)
    if action == 0:
        (root / "a").rename(root / "away")
    elif action == 1:
        (root / "away").rename(root / "a")
    elif action == 2:
        (root / "a" / "b").mkdir(parents=True)
    elif action == 3:
        shutil.rmtree(root / "a" / "b")
    else:
        (root / "new").symlink_to(rng.choice(["a", str(root / "away"), "nowhere", "link"]))
        (root / "new").rename(root / "link")


def main() -> None:
    root, changes, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    random.seed(int(sys.argv[3]))
    os.umask(0o077)
    for _ in range(changes):
        with contextlib.suppress(OSError):
            (change_a_parent if rng.random() < 0.15 else change_a_file)(root, rng)
    print("{}")


if __name__ == "__main__":
    main()
