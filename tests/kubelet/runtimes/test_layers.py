from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from dray.errors import Error, InvalidError
from dray.kubelet.runtimes.layers import unpack


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.uid, info.gid = os.geteuid(), os.getegid()
    return info


def layer(*entries: tuple[tarfile.TarInfo, bytes] | tarfile.TarInfo, kind: str = "w") -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=kind) as archive:  # type: ignore[call-overload]
        for one in entries:
            info, data = one if isinstance(one, tuple) else (one, b"")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    buffer.seek(0)
    return buffer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With a file beside it that no layer may touch."""
    (tmp_path / "outside").write_text("safe")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_files_directories_links_and_modes(root: Path) -> None:
    unpack(
        layer(
            entry("./bin", tarfile.DIRTYPE, mode=0o755),
            (entry("./bin/run", mode=0o4755), b"#!"),
            entry("bin/again", tarfile.LNKTYPE, "bin/run"),
            entry("sbin", tarfile.SYMTYPE, "bin"),
            (entry("/etc/deep/file"), b"x"),
            entry("pipe", tarfile.FIFOTYPE),
            kind="w:gz",
        ),
        root,
    )
    assert (root / "bin/run").read_bytes() == b"#!"
    assert stat.S_IMODE((root / "bin/run").stat().st_mode) == 0o4755
    assert (root / "bin/again").stat().st_ino == (root / "bin/run").stat().st_ino
    assert os.readlink(root / "sbin") == "bin"
    assert (root / "etc/deep/file").read_text() == "x"
    assert (root / "pipe").is_fifo()


def test_an_entry_below_a_link_goes_where_it_points_inside(root: Path) -> None:
    unpack(
        layer(entry("usr/lib", tarfile.DIRTYPE, mode=0o755), entry("lib", tarfile.SYMTYPE, "/usr/lib")), root
    )
    unpack(layer((entry("lib/new"), b"n")), root)
    assert (root / "usr/lib/new").read_bytes() == b"n"
    assert (root / "lib").is_symlink()


def test_whiteouts_remove_what_lies_below(root: Path) -> None:
    unpack(
        layer((entry("a/one"), b"1"), (entry("a/two"), b"2"), (entry("b/old"), b"o"), (entry("c"), b"c")),
        root,
    )
    unpack(
        layer(
            (entry("b/new"), b"n"),
            entry("a/.wh.one"),
            entry("b/.wh..wh..opq"),
            entry(".wh.c"),
            entry(".wh.no"),
        ),
        root,
    )
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["a", "a/two", "b", "b/new"]


def test_a_file_takes_the_place_of_a_directory_and_back(root: Path) -> None:
    unpack(layer((entry("a/deep"), b"1"), (entry("b"), b"2")), root)
    unpack(layer((entry("a"), b"file"), entry("b", tarfile.DIRTYPE, mode=0o755)), root)
    assert (root / "a").read_bytes() == b"file"
    assert (root / "b").is_dir()


@pytest.mark.parametrize(
    "entries",
    [
        [(entry("../outside"), b"x")],
        [(entry("a/../../outside"), b"x")],
        [entry("l", tarfile.SYMTYPE, ".."), (entry("l/outside"), b"x")],
        [entry("l", tarfile.SYMTYPE, "../outside"), (entry("l"), b"x")],
        [entry("l", tarfile.SYMTYPE, "../../../../../.."), entry("l/.wh.tmp")],
        [entry(".wh..."), entry(".wh...")],
        [entry("h", tarfile.LNKTYPE, "../outside")],
        [entry("s", tarfile.SYMTYPE, ".."), entry("h", tarfile.LNKTYPE, "s/outside"), (entry("h"), b"x")],
    ],
)
def test_nothing_leaves_the_root(
    root: Path, entries: list[tuple[tarfile.TarInfo, bytes] | tarfile.TarInfo]
) -> None:
    before = sorted(path.name for path in root.parent.iterdir())
    with contextlib.suppress(Error):
        unpack(layer(*entries), root)
    assert (root.parent / "outside").read_text() == "safe"
    assert (root.parent / "outside").stat().st_nlink == 1
    assert sorted(path.name for path in root.parent.iterdir()) == before


@pytest.mark.parametrize("data", [b"", b"garbage" * 100, layer((entry("a"), b"x" * 5000)).getvalue()[:3000]])
def test_what_is_no_layer(root: Path, data: bytes) -> None:
    with pytest.raises(InvalidError, match="cannot unpack a layer"):
        unpack(io.BytesIO(data), root)
