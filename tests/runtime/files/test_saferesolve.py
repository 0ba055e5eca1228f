from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.errors import InvalidError
from dray.runtime.files.saferesolve import (
    Links,
    Resolver,
    best_resolver,
    by_openat2,
    by_walking,
    check_name,
    check_relative,
)
from tests.campaign import campaign, seeds

has_openat2 = best_resolver() is by_openat2
needs_openat2 = pytest.mark.skipif(
    not has_openat2, reason="this kernel (or container runtime) has no openat2"
)
RESOLVERS = [pytest.param(by_openat2, marks=needs_openat2), by_walking]


@pytest.mark.parametrize(
    "path", ["", "/", "/etc", "..", "a/..", "a/../b", "./a", "a/.", "a//b", "a/", "a\0b", "//"]
)
def test_unclean_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidError):
        check_relative(path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0"])
def test_names_are_one_part(name: str) -> None:
    with pytest.raises(InvalidError):
        check_name(name)


@settings(max_examples=campaign(300, 50_000))
@given(st.text(st.sampled_from("./a\0é"), max_size=12))
def test_what_is_accepted_never_climbs(path: str) -> None:
    try:
        check_relative(path)
    except InvalidError:
        return
    assert path == "." or not {"", ".", ".."} & set(path.split("/"))
    assert "\0" not in path


def resolve(resolver: Resolver, root: Path, path: str, links: Links) -> tuple[str, object]:
    """Where a resolver leads: to an inode, or to an error."""
    directory = os.open(root, os.O_PATH)
    try:
        descriptor = resolver(directory, path, links)
    except OSError as error:
        return "error", errno.errorcode[error.errno or 0]
    finally:
        os.close(directory)
    try:
        status = os.fstat(descriptor)
        return "inode", (status.st_dev, status.st_ino)
    finally:
        os.close(descriptor)


def inode(path: Path) -> tuple[str, object]:
    status = path.lstat()
    return "inode", (status.st_dev, status.st_ino)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").touch()
    (tmp_path / "secret").touch()
    for name, target in {
        "relative": "a/b",
        "absolute": "/a/b",
        "to_root": "/",
        "climbing": "../../../../secret",
        "climbing_inside": "a/../../../a/b",
        "chain": "relative/../../absolute",
        "loop": "loop",
        "one": "two",
        "two": "one",
        "through_file": "a/b/file/..",
        "file_slash": "a/b/file/",
        "outside": str(tmp_path / "secret"),
        "a/up": "../..",
    }.items():
        (root / name).symlink_to(target)
    return root


FOLLOWED = {
    "relative/file": "a/b/file",
    "absolute/file": "a/b/file",
    "to_root/a/b/file": "a/b/file",
    "climbing_inside/file": "a/b/file",
    "chain/file": "a/b/file",
    "a/up": ".",
    "a/up/a/up/a/b": "a/b",
    ".": ".",
    "a/b": "a/b",
    "climbing": "ENOENT",
    "outside": "ENOENT",
    "loop": "ELOOP",
    "one": "ELOOP",
    "through_file": "ENOTDIR",
    "file_slash": "ENOTDIR",
    "a/b/file/x": "ENOTDIR",
    "nothing": "ENOENT",
}


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("path", FOLLOWED)
def test_followed_links_stay_inside(tree: Path, resolver: Resolver, path: str) -> None:
    wanted = FOLLOWED[path]
    expected = ("error", wanted) if wanted.isupper() else inode(tree / wanted)
    assert resolve(resolver, tree, path, Links.FOLLOW) == expected


WITHIN = {
    "relative/file": "a/b/file",
    "a/b": "a/b",
    "a/up": "EXDEV",
    "absolute/file": "EXDEV",
    "to_root": "EXDEV",
    "climbing": "EXDEV",
    "climbing_inside": "EXDEV",
    "outside": "EXDEV",
    "loop": "ELOOP",
    "through_file": "ENOTDIR",
    "nothing": "ENOENT",
}


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("path", WITHIN)
def test_links_count_while_they_stay_within(tree: Path, resolver: Resolver, path: str) -> None:
    wanted = WITHIN[path]
    expected = ("error", wanted) if wanted.isupper() else inode(tree / wanted)
    assert resolve(resolver, tree, path, Links.WITHIN) == expected


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize(
    "path", ["relative", "relative/file", "absolute", "climbing", "loop", "a/up", "to_root/a"]
)
def test_every_link_is_refused_and_named(tree: Path, resolver: Resolver, path: str) -> None:
    directory = os.open(tree, os.O_PATH)
    try:
        with pytest.raises(OSError) as caught:
            resolver(directory, path, Links.REFUSE)
    finally:
        os.close(directory)
    assert caught.value.errno == errno.ELOOP
    assert caught.value.filename == ("up" if path == "a/up" else path.split("/")[0])


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_plain_paths_need_no_links(tree: Path, resolver: Resolver) -> None:
    assert resolve(resolver, tree, "a/b/file", Links.REFUSE) == inode(tree / "a/b/file")
    assert resolve(resolver, tree, ".", Links.REFUSE) == inode(tree)
    assert resolve(resolver, tree, "a/nothing", Links.REFUSE) == ("error", "ENOENT")
    assert resolve(resolver, tree, "x" * 300, Links.REFUSE) == ("error", "ENAMETOOLONG")


def test_the_walk_gives_every_descriptor_back(tree: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in FOLLOWED:
        for links in Links:
            resolve(by_walking, tree, path, links)
    assert len(os.listdir("/proc/self/fd")) == before


NAMES = "abc"


def plant(root: Path, rng: random.Random) -> None:
    """A random little forest with links in all directions."""
    directories = [root]
    for _ in range(12):
        path = rng.choice(directories) / rng.choice(NAMES)
        if os.path.lexists(path):
            continue
        kind = rng.randrange(5)
        if kind < 2:
            path.mkdir()
            directories.append(path)
        elif kind == 2:
            path.touch()
        else:
            target = rng.choice(["", "/", "../", "../../", "./", "//"])
            target += "/".join(rng.choice([*NAMES, "..", "."]) for _ in range(rng.randrange(4)))
            path.symlink_to((target + rng.choice(["", "/"])) or ".")


@needs_openat2
@pytest.mark.parametrize("seed", seeds(20, 2000))
def test_the_walk_agrees_with_the_kernel_on_random_trees(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "a").touch()
    plant(root, rng)
    for _ in range(60):
        path = "/".join(rng.choice(NAMES) for _ in range(rng.randrange(1, 5)))
        for links in Links:
            assert resolve(by_walking, root, path, links) == resolve(by_openat2, root, path, links), path
