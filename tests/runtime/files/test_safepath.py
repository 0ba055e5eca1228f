from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from dray.runtime.files.safepath import Links, Root, SafePath
from dray.runtime.files.saferesolve import Resolver
from tests.campaign import campaign
from tests.runtime.files.conftest import ROOT
from tests.runtime.files.test_saferesolve import RESOLVERS
from tests.waiting import PATIENCE

is_root = os.geteuid() == 0
root_only = pytest.mark.skipif(not is_root, reason="only root may do this")


@pytest.fixture(params=RESOLVERS)
def resolver(request: pytest.FixtureRequest) -> Resolver:
    chosen: Resolver = request.param
    return chosen


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "root" / "d").mkdir(parents=True)
    (tmp_path / "root" / "d" / "file").write_text("inside")
    return tmp_path / "root"


@pytest.fixture
def root(base: Path, resolver: Resolver) -> Iterator[Root]:
    before = len(os.listdir("/proc/self/fd"))
    with Root(base, resolver=resolver) as opened:
        yield opened
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor was not given back"


@pytest.fixture
def directory(root: Root) -> Iterator[SafePath]:
    with root.open("d") as opened:
        yield opened


# --- opening -------------------------------------------------------------------------------------------------------


def test_what_is_opened_is_what_is_there(root: Root, base: Path) -> None:
    with root.open("d/file") as opened:
        assert opened.stat().st_ino == (base / "d" / "file").stat().st_ino
        assert opened.shown == str(base / "d" / "file")
    with root.open(".") as opened:
        assert opened.listdir() == ["d"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../root", "d/../d", "d\0", ""])
def test_paths_that_could_lead_out_are_invalid(root: Root, path: str) -> None:
    with pytest.raises(InvalidError):
        root.open(path)


def test_a_missing_file_is_named(root: Root, base: Path) -> None:
    with pytest.raises(NotFoundError, match="d/nothing"):
        root.open("d/nothing")
    with pytest.raises(NotFoundError, match="no-such-root"):
        Root(base / "no-such-root")


def test_a_link_in_the_way_is_denied_and_named(root: Root, base: Path) -> None:
    (base / "link").symlink_to("d")
    with pytest.raises(DeniedError, match=r"link/file.*'link' is a symbolic link"):
        root.open("link/file")
    with root.open("link/file", links=Links.FOLLOW) as opened:
        assert opened.read() == b"inside"


def test_an_endless_link_is_denied(root: Root, base: Path) -> None:
    (base / "loop").symlink_to("loop")
    with pytest.raises(DeniedError):
        root.open("loop", links=Links.FOLLOW)


def test_the_root_itself_may_be_a_link(base: Path) -> None:
    (base.parent / "alias").symlink_to(base)
    with Root(base.parent / "alias") as root, root.open("d/file") as opened:
        assert opened.read() == b"inside"


def test_a_closed_path_acts_on_nothing(root: Root) -> None:
    opened = root.open("d")
    opened.close()
    opened.close()
    for act in (lambda: opened.chmod(0o777), lambda: opened.remove("file"), lambda: opened.mkdir("x")):
        with pytest.raises(Error):
            act()


def test_real_sysfs_and_dev_are_readable_through_their_links() -> None:
    with Root(Path("/sys")) as sys_root, sys_root.open("class/mem/null/dev", links=Links.FOLLOW) as opened:
        assert opened.read() == b"1:3\n"
    with Root(Path("/dev")) as dev, dev.open("null") as null:
        assert null.stat().st_rdev == os.makedev(1, 3)
        with pytest.raises(InvalidError, match="not a regular file"):
            null.read()


# --- one file ------------------------------------------------------------------------------------------------------


def test_a_swap_after_opening_changes_nothing(root: Root, base: Path) -> None:
    victim = base.parent / "victim"
    victim.write_text("outside")
    victim.chmod(0o644)
    with root.open("d/file") as opened:
        (base / "d" / "file").rename(base / "kept")
        (base / "d" / "file").symlink_to(victim)
        opened.chmod(0o600)
        opened.write(b"INSIDE")
    assert victim.read_text() == "outside" and victim.stat().st_mode & 0o777 == 0o644
    assert (base / "kept").read_text() == "INSIDE" and (base / "kept").stat().st_mode & 0o777 == 0o600


def test_reading_stops_at_the_limit(root: Root) -> None:
    with root.open("d/file") as opened:
        assert opened.read(6) == b"inside"
        with pytest.raises(InvalidError, match="more than 5 bytes"):
            opened.read(5)


def test_only_regular_files_are_read_and_written(root: Root, base: Path) -> None:
    os.mkfifo(base / "fifo")  # opening it would wait for the other side
    with root.open("fifo") as opened:
        for act in (opened.read, lambda: opened.write(b"x"), opened.listdir):
            with pytest.raises(InvalidError, match="not a"):
                act()
    with root.open("d") as opened, pytest.raises(InvalidError, match="not a regular file"):
        opened.read()


@root_only
def test_chown_gives_the_file_away(root: Root, base: Path) -> None:
    with root.open("d/file") as opened:
        opened.chown(107, 108)
        opened.chown(-1, 109)
    status = (base / "d" / "file").stat()
    assert (status.st_uid, status.st_gid) == (107, 109)


def test_chown_to_others_needs_root(root: Root, not_root: None) -> None:
    with root.open("d/file") as opened, pytest.raises(DeniedError, match=r"cannot chown .*d/file"):
        opened.chown(0, 0)


@root_only
def test_relabel_sets_the_selinux_label_once(root: Root, directory: SafePath, base: Path) -> None:
    label = "system_u:object_r:container_file_t:s0"
    directory.listen("socket").close()
    for path in ("d/file", "d", "d/socket"):
        with root.open(path) as opened:
            try:
                assert opened.relabel(label) is True
            except UnavailableError:
                pytest.skip("this file system keeps no labels")
            assert opened.relabel(label) is False
            assert opened.label() == label
    assert os.getxattr(base / "d" / "file", "security.selinux") == label.encode() + b"\0"


def test_a_file_without_a_label_has_an_empty_one(base: Path) -> None:
    with Root(Path("/proc")) as root, root.open("version") as opened:
        assert isinstance(opened.label(), str)


# --- in a directory ------------------------------------------------------------------------------------------------


def test_children_are_opened_by_one_name(directory: SafePath, base: Path) -> None:
    (base / "d" / "link").symlink_to("file")
    with directory.child("file") as child:
        assert child.read() == b"inside"
    with pytest.raises(DeniedError, match="symbolic link"):
        directory.child("link")
    with pytest.raises(InvalidError, match="single name"):
        directory.child("file/x")
    assert directory.readlink("link") == "file"
    with pytest.raises(InvalidError):
        directory.readlink("file")
    assert directory.listdir() == ["file", "link"]


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_modes_are_exact_whatever_the_umask(directory: SafePath, base: Path, mask: int) -> None:
    old = os.umask(mask)
    try:
        directory.mkdir("sub", 0o755).close()
        directory.mknod("fifo", stat.S_IFIFO | 0o666)
        directory.mknod("empty", stat.S_IFREG | 0o640)
        directory.replace("new", b"content", 0o644)
        directory.listen("socket", 0o666).close()
    finally:
        os.umask(old)
    modes = {path.name: stat.filemode(path.lstat().st_mode) for path in (base / "d").iterdir()}
    del modes["file"]
    assert modes == {
        "sub": "drwxr-xr-x",
        "fifo": "prw-rw-rw-",
        "empty": "-rw-r-----",
        "new": "-rw-r--r--",
        "socket": "srw-rw-rw-",
    }


@root_only
def test_device_nodes_and_owners(directory: SafePath, base: Path) -> None:
    directory.mknod("null", stat.S_IFCHR | 0o620, os.makedev(1, 3), owner=(107, 108))
    directory.mkdir("sub", 0o750, owner=(107, 108)).close()
    directory.listen("socket", 0o660, owner=(107, 108)).close()
    for name, mode in (("null", 0o620), ("sub", 0o750), ("socket", 0o660)):
        status = (base / "d" / name).lstat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (107, 108, mode)
    assert (base / "d" / "null").stat().st_rdev == os.makedev(1, 3)


def test_a_device_node_needs_root(directory: SafePath, not_root: None) -> None:
    with pytest.raises(DeniedError, match="null"):
        directory.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert directory.listdir() == ["file"]


def test_taken_names_are_a_conflict_and_stay_as_they_are(directory: SafePath, base: Path) -> None:
    (base / "d" / "dangling").symlink_to(base.parent / "victim")
    for name in ("file", "dangling"):
        for make in (
            directory.mkdir,
            lambda name: directory.mknod(name, stat.S_IFIFO | 0o600),
            directory.listen,
        ):
            with pytest.raises(ConflictError, match=f"{name}.*exists already"):
                make(name)
    assert directory.listdir() == ["dangling", "file"]
    assert (base / "d" / "file").read_text() == "inside"
    assert not (base.parent / "victim").exists()


def test_replace_puts_a_file_in_the_place_of_a_link(directory: SafePath, base: Path) -> None:
    victim = base.parent / "victim"
    victim.write_text("outside")
    (base / "d" / "link").symlink_to(victim)
    directory.replace("link", b"new")
    directory.replace("file", b"newer")
    assert victim.read_text() == "outside"
    assert (base / "d" / "link").read_bytes() == b"new" and not (base / "d" / "link").is_symlink()
    assert directory.listdir() == ["file", "link"]


def test_remove_and_rename_never_follow(root: Root, directory: SafePath, base: Path) -> None:
    outside = base.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    (base / "d" / "link").symlink_to(outside)
    directory.mkdir("sub").close()
    directory.rename("link", "renamed")
    directory.remove("renamed")
    directory.remove("sub")
    with pytest.raises(NotFoundError, match="gone"):
        directory.remove("gone")
    with root.open(".") as top:
        directory.rename("file", "moved", top)
        assert top.listdir() == ["d", "moved"]
        (base / "d" / "x").touch()
        with pytest.raises(ConflictError, match="not empty"):
            top.remove("d")
    assert (outside / "sub").is_dir()


def test_a_failed_make_leaves_nothing_behind(directory: SafePath, not_root: None) -> None:
    for make in (
        lambda: directory.mkdir("x", owner=(0, 0)),
        lambda: directory.listen("x", owner=(0, 0)),
        lambda: directory.mknod("x", stat.S_IFIFO, owner=(0, 0)),
    ):
        with pytest.raises(DeniedError):
            make()
    assert directory.listdir() == ["file"]


# --- sockets -------------------------------------------------------------------------------------------------------


def test_listen_and_connect_meet(root: Root, directory: SafePath, base: Path) -> None:
    name = "x" * 100 + ".sock"  # too long for an address, with its directory, but not for us
    with (
        directory.listen(name, 0o660) as listener,
        root.open(f"d/{name}") as there,
        there.connect() as connection,
    ):
        connection.sendall(b"hello")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(5) == b"hello"
    with root.open(f"d/{name}") as there, pytest.raises(UnavailableError, match="connect"):
        there.connect()
    with root.open("d/file") as there, pytest.raises(InvalidError, match="not a socket"):
        there.connect()


def test_a_socket_without_a_listener_answering_times_out(directory: SafePath) -> None:
    with (
        directory.listen("full", backlog=0),
        directory.child("full") as there,
        contextlib.ExitStack() as stack,
        pytest.raises(UnavailableError, match="connect"),
    ):
        for _ in range(10):
            stack.enter_context(there.connect(timeout=0.05))


def test_listening_replaces_an_old_socket_only_when_told(directory: SafePath, base: Path) -> None:
    directory.listen("s").close()
    with pytest.raises(ConflictError):
        directory.listen("s")
    with directory.listen("s", replace=True), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(base / "d" / "s"))
    assert directory.listdir() == ["file", "s"]


def test_nobody_sees_a_socket_that_does_not_listen_or_has_the_wrong_mode(base: Path) -> None:
    """A watcher that connects as soon as the name is there, like the kubelet, is never refused."""
    program = (
        "import os, socket, stat, sys\nprint(flush=True)\n"
        "for number in range(int(sys.argv[2])):\n"
        "    path = sys.argv[1] + str(number)\n"
        "    while not os.path.exists(path): pass\n"
        "    mode = stat.S_IMODE(os.stat(path).st_mode)\n"
        "    if mode != 0o640: sys.exit(f'mode {mode:o}')\n"
        "    with socket.socket(socket.AF_UNIX) as client: client.connect(path)\n"
    )
    rounds = campaign(100, 5000)
    argv = [sys.executable, "-c", program, str(base / "d" / "s"), str(rounds)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None and watcher.stdout.readline() and watcher.stderr is not None
        with Root(base) as root, root.open("d") as directory:
            for number in range(rounds):
                with directory.listen(f"s{number}", 0o640) as listener:
                    listener.settimeout(1)
                    while watcher.poll() is None:
                        with contextlib.suppress(TimeoutError):
                            listener.accept()[0].close()
                            break
        assert watcher.wait(PATIENCE) == 0, watcher.stderr.read()


# --- an attacker ---------------------------------------------------------------------------------------------------


class Field:
    """`root/d` (a directory) and `root/evil` (a link to `outside`) are swapped without pause, or their files are."""

    def __init__(self, base: Path, swapped: str) -> None:
        self.base, self.outside = base, base.parent / "outside"
        self.outside.mkdir()
        (self.outside / "file").write_text("victim")
        (self.outside / "file").chmod(0o444)
        (self.outside / "sub").mkdir()
        if swapped == "directory":
            self.pair = (base / "d", base / "evil")
            (base / "evil").symlink_to(self.outside)
        else:
            self.pair = (base / "d" / "file", base / "d" / "evil")
            (base / "d" / "evil").symlink_to(self.outside / "file")
        self.before = self.picture()

    def picture(self) -> dict[str, tuple[object, ...]]:
        """All that an intruder could change outside."""
        picture: dict[str, tuple[object, ...]] = {}
        for path in (self.outside, *sorted(self.outside.rglob("*"))):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            picture[str(path)] = (status.st_mode, status.st_uid, status.st_gid, status.st_ctime_ns, content)
        return picture

    @contextlib.contextmanager
    def attacked(self) -> Iterator[None]:
        argv = [sys.executable, "-m", "tests.runtime.files.programs.path_attacker", *map(str, self.pair)]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, cwd=ROOT, stdout=pipe, stderr=pipe) as attacker:
            try:
                assert attacker.stdout is not None and attacker.stderr is not None
                if not attacker.stdout.readline():
                    pytest.skip(attacker.stderr.read().decode().strip())
                yield
                assert attacker.poll() is None, "the attacker gave up"
            finally:
                attacker.kill()


GIVEN_TO = (12345, 12345) if is_root else (os.getuid(), os.getgid())


def on_the_file(path: SafePath, number: int) -> None:
    path.chown(*GIVEN_TO)
    path.chmod(0o600 | number % 0o100)
    path.write(b"owned!")


def in_the_directory(path: SafePath, number: int) -> None:
    kind, device = (stat.S_IFCHR, os.makedev(1, 3)) if is_root else (stat.S_IFIFO, 0)
    path.mknod("node", kind | 0o666, device)
    path.remove("node")
    path.mkdir("made", 0o777).close()
    path.remove("made")
    path.listen("socket", 0o666).close()
    path.remove("socket")
    if number % 20 == 0:  # waits for the disk
        path.replace("file", b"owned!", 0o666)


Act = tuple[str, str, Callable[[SafePath, int], None]]
ACTS: list[Act] = [
    ("directory", "d/file", on_the_file),
    ("file", "d/file", on_the_file),
    ("directory", "d", in_the_directory),
]


@pytest.mark.parametrize("links", Links)
@pytest.mark.parametrize("act", ACTS, ids=["file below", "file itself", "directory"])
def test_an_attacker_who_swaps_names_never_leads_us_out(
    base: Path, resolver: Resolver, links: Links, act: Act
) -> None:
    swapped, path, work = act
    field = Field(base, swapped)
    done = refused = number = 0
    deadline = time.monotonic() + 60
    with field.attacked(), Root(base, resolver=resolver) as root:
        while number < campaign(2000, 100_000) // 6 or (
            min(done, refused) <= 10 and time.monotonic() < deadline
        ):
            number += 1
            try:
                with root.open(path, links=links) as opened:
                    work(opened, number)
                done += 1
            except (DeniedError, NotFoundError):
                refused += 1
    assert field.picture() == field.before
    assert done > 10 and refused > 10, f"no race took place: {done} done, {refused} refused"


def naive(base: Path, path: str) -> None:
    """How one would write it without thinking of attackers: look, then act on the name."""
    name = base / path
    if Path(os.path.realpath(name)).is_relative_to(base):
        os.chmod(name, 0o666)


def test_the_attacker_beats_a_naive_check(base: Path) -> None:
    """Shows that the test above has teeth."""
    field = Field(base, "directory")
    deadline = time.monotonic() + 60
    tries = 0
    with field.attacked():
        while (field.outside / "file").stat().st_mode & 0o777 != 0o666:
            tries += 1
            with contextlib.suppress(OSError):
                naive(base, "d/file")
            assert time.monotonic() < deadline, (
                f"the naive check held {tries} times: the attacker is too slow"
            )


def test_a_directory_moved_out_while_we_walk_does_not_take_us_along(base: Path, resolver: Resolver) -> None:
    """`..` in a link goes back along the way we came, not to where the directory lies by then."""
    (base / "d" / "deep").mkdir()
    (base / "d" / "deep" / "up").symlink_to("../../secret")
    (base / "secret").write_text("inside")
    (base.parent / "secret").write_text("outside")
    (base.parent / "deep").mkdir()
    argv = [sys.executable, "-m", "tests.runtime.files.programs.path_attacker"]
    pair = [str(base / "d" / "deep"), str(base.parent / "deep")]
    with subprocess.Popen([*argv, *pair], cwd=ROOT, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        if not attacker.stdout.readline():
            pytest.skip("this file system cannot swap names")
        seen: set[bytes] = set()
        tries, deadline = 0, time.monotonic() + 60
        with Root(base, resolver=resolver) as root:
            while tries < campaign(500, 50_000) or (not seen and time.monotonic() < deadline):
                tries += 1
                with contextlib.suppress(NotFoundError), root.open("d/deep/up", links=Links.FOLLOW) as opened:
                    seen.add(opened.read())
        attacker.kill()
    assert seen == {b"inside"}
