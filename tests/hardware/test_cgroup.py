from __future__ import annotations

from pathlib import Path

from dray.hardware.cgroup import CgroupVersion, read_cgroup_version
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host


def test_the_version_and_the_permissions_that_follow(tmp_path: Path) -> None:
    host = Host(tmp_path)
    root = HostRoot(tmp_path)
    assert read_cgroup_version(root) is CgroupVersion.V2
    host.cgroup(1)
    assert read_cgroup_version(root) is CgroupVersion.V1
    host.file("/sys/fs/cgroup/unified/cgroup.controllers", "")
    assert read_cgroup_version(root) is CgroupVersion.HYBRID
    host.vanish("/sys/fs/cgroup")
    assert read_cgroup_version(root) is CgroupVersion.V1
    assert [version.device_permissions for version in CgroupVersion] == ["rw", "rw", "rwm"]


def test_a_link_that_leads_to_itself_is_no_list(tmp_path: Path) -> None:
    Host(tmp_path).link("/sys/fs/cgroup/cgroup.controllers", "cgroup.controllers")
    assert read_cgroup_version(HostRoot(tmp_path)) is CgroupVersion.V1


def test_this_machine() -> None:
    """The file system's type at the top says it too: cgroup2 there, and nowhere else, is version 2."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    unified = any(fields[1] == "/sys/fs/cgroup" and fields[2] == "cgroup2" for fields in mounts)
    assert (read_cgroup_version(HostRoot(Path("/"))) is CgroupVersion.V2) == unified
