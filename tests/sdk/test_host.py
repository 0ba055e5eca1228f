from __future__ import annotations

from contextlib import suppress
from glob import glob
from pathlib import Path

import pytest

from dray.errors import Error, NotFoundError
from dray.hardware.host_root import HostRoot
from dray.sdk import Host
from tests.campaign import campaign, seeded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in ("dev/lamp1", "dev/lamp0", "dev/.lamp2", "dev/tty", "sys/a/level", "sys/b/level", "sys/c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("7\n")
    (tmp_path / "dev/lamp9").symlink_to("nowhere")
    (tmp_path / "etc").symlink_to("/dev")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("/dev/lamp*", ["/dev/lamp0", "/dev/lamp1"]),
        ("/dev/lamp[1-9]", ["/dev/lamp1"]),
        ("/dev/.lamp?", ["/dev/.lamp2"]),
        ("/sys/*/level", ["/sys/a/level", "/sys/b/level"]),
        ("/s*/?/lev*", ["/sys/a/level", "/sys/b/level"]),
        ("/dev/tty", ["/dev/tty"]),
        ("/dev/none", []),
        ("/none/*", []),
        ("/etc/lamp*", ["/etc/lamp0", "/etc/lamp1"]),
    ],
)
def test_glob(root: Path, pattern: str, found: list[str]) -> None:
    assert Host(root).glob(pattern) == found


def test_what_was_listed_is_known_also_where_it_does_not_exist_yet(root: Path) -> None:
    host = Host(root)
    assert not host.listed
    host.glob("/dev/lamp*")
    host.names("/run/lamps/")
    host.exists("/opt/lamp.conf")
    assert host.listed == ("/dev", "/opt", "/run/lamps")


def test_a_file_is_no_directory_to_watch(root: Path) -> None:
    host = Host(root)
    host.glob("/sys/*/*")
    assert host.listed == ("/sys", "/sys/a", "/sys/b")


def test_reading(root: Path) -> None:
    host = Host(HostRoot(root))
    assert host.read_text("/sys/c") == "7"
    assert host.exists("/dev/lamp0") and not host.exists("/dev/lamp9")
    assert host.read_link("/dev/lamp9") == "nowhere"
    assert host.names("/none") == []
    assert host.path("/dev/lamp0") == root / "dev/lamp0"
    with pytest.raises(NotFoundError, match="/none"):
        host.read_text("/none")


def test_no_link_leads_out_of_the_root(root: Path) -> None:
    (root / "out").symlink_to("../../../../../../../../../../etc/hostname")
    with pytest.raises(Error):
        Host(root).read_text("/out")


def test_glob_agrees_with_pythons(tmp_path: Path) -> None:
    """On random trees, with random patterns."""
    random = seeded(8)
    names = ["a", "ab", "b", ".a", "a.b", "[a]", "c*"]
    parts = ["*", "a*", "?", "[ab]", "[!a]*", ".*", "a", "ab", "*.b", "[[]a]", "none"]
    for number in range(campaign(30, 2000)):
        root = tmp_path / str(number)
        for _ in range(random.randrange(8)):
            path = root.joinpath(*random.choices(names, k=random.randint(1, 3)))
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        root.mkdir(exist_ok=True)
        pattern = "/".join(random.choices(parts, k=random.randint(1, 3)))
        wanted = sorted(f"/{one}" for one in glob(pattern, root_dir=root))
        assert Host(root).glob(f"/{pattern}") == wanted, (pattern, number)
