from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import HardwareError, NotFoundError
from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.misc_capacity import PATHS, MiscCapacity, misc_capacity, read_misc_capacity
from dray.testing.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_the_host_offers(host: Host) -> None:
    host.misc_capacity(tdx=10, sev=5)
    root = HostRoot(host.root)
    assert read_misc_capacity(root) == Found((MiscCapacity("sev", 5), MiscCapacity("tdx", 10)))
    assert misc_capacity(root, "tdx") == 10


def test_nothing_offered(host: Host) -> None:
    root = HostRoot(host.root)
    assert read_misc_capacity(root) == Found()
    host.misc_capacity()
    assert read_misc_capacity(root) == Found()
    with pytest.raises(NotFoundError, match="'tdx'"):
        misc_capacity(root, "tdx")


@pytest.mark.parametrize("path", PATHS)
def test_where_each_version_of_cgroup_has_it(host: Host, path: str) -> None:
    host.file(path, "tdx 10\n")
    assert misc_capacity(HostRoot(host.root), "tdx") == 10


@pytest.mark.parametrize("line", ["tdx", "tdx ten", "tdx 1 2", "tdx -1", "tdx max"])
def test_a_line_that_is_wrong_hides_its_kind_only(host: Host, line: str) -> None:
    host.file(PATHS[0], f"sev 5\n{line}\n")
    root = HostRoot(host.root)
    assert misc_capacity(root, "sev") == 5
    assert len(read_misc_capacity(root).problems) == 1
    with pytest.raises(HardwareError, match="'tdx'"):
        misc_capacity(root, "tdx")


def test_a_file_that_is_no_text(host: Host) -> None:
    host.file(PATHS[0], b"\xff\xfe")
    root = HostRoot(host.root)
    assert [problem.path for problem in read_misc_capacity(root).problems] == [PATHS[0]]
    with pytest.raises(HardwareError, match="tdx"):
        misc_capacity(root, "tdx")
