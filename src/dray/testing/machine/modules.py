"""Kernel modules as a package ships them: what each needs, and the order in which to load them.

`depmod` would tell too, but it runs when a package is installed, and ours is only unpacked.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable
from pathlib import Path

from dray.errors import NotFoundError

_DEPENDS = b"\0depends="


def read_module(path: Path) -> bytes:
    """The module's image, unpacked where Debian compresses it."""
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def names(directory: Path) -> dict[str, Path]:
    """All modules below `directory` by their name, which has `_` wherever the file may have `-`."""
    return {
        path.name.partition(".ko")[0].replace("-", "_"): path
        for path in sorted(directory.rglob("*.ko*"))
        if path.suffix in (".ko", ".xz")
    }


def builtin(directory: Path) -> frozenset[str]:
    """The modules that are part of the kernel itself: the file `modules.builtin` names them."""
    found = [
        name
        for listing in directory.rglob("modules.builtin")
        for name in (Path(line).stem.replace("-", "_") for line in listing.read_text().split())
    ]
    return frozenset(found)


def dependencies(image: bytes) -> tuple[str, ...]:
    """The modules that must be loaded before this one, as its own text says."""
    start = image.find(_DEPENDS)
    if start < 0:
        return ()
    start += len(_DEPENDS)
    text = image[start : image.index(b"\0", start)].decode()
    return tuple(name.replace("-", "_") for name in text.split(",") if name)


def load_order(
    wanted: Iterable[str], read: Callable[[str], bytes], inside: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The wanted modules with all they need, each after what it needs; those that are `inside` the kernel are left out."""
    order: dict[str, None] = {}
    open_: set[str] = set()

    def visit(name: str) -> None:
        if name in order or name in inside:
            return
        if name in open_:
            raise NotFoundError(f"kernel module {name} depends on itself", kind="module", name=name)
        open_.add(name)
        for other in dependencies(read(name)):
            visit(other)
        order[name] = None

    for name in wanted:
        visit(name)
    return tuple(order)
