from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import NotFoundError
from dray.hardware.host_root import HostRoot
from dray.hardware.selinux import ENFORCE, SelinuxState, read_label, read_selinux
from dray.testing.host import Host

LABEL = "system_u:object_r:container_file_t:s0"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_state(host: Host) -> None:
    root = HostRoot(host.root)
    assert read_selinux(root) is SelinuxState.ABSENT
    host.selinux("permissive")
    assert read_selinux(root) is SelinuxState.PERMISSIVE
    host.selinux("enforcing")
    assert read_selinux(root) is SelinuxState.ENFORCING
    host.selinux("disabled")
    assert read_selinux(root) is SelinuxState.ABSENT


def test_what_cannot_be_read_is_absent(host: Host) -> None:
    host.selinux("enforcing")
    host.garbage(ENFORCE, b"1\n")
    assert read_selinux(HostRoot(host.root)) is SelinuxState.ENFORCING
    host.garbage(ENFORCE, b"2")
    assert read_selinux(HostRoot(host.root)) is SelinuxState.PERMISSIVE
    host.unreadable(ENFORCE)
    assert read_selinux(HostRoot(host.root)) is SelinuxState.ABSENT


def test_the_label_of_a_file(host: Host) -> None:
    node = host.char_device("/dev/kvm", 10, 232).path
    host.link("/dev/alias", "/dev/kvm")
    root = HostRoot(host.root)
    assert read_label(root, "/dev/kvm") == ""
    with pytest.raises(NotFoundError):
        read_label(root, "/dev/none")
    try:
        os.setxattr(node, "security.selinux", LABEL.encode() + b"\0")
    except OSError as error:
        pytest.skip(f"labels cannot be set here: {error}")
    assert read_label(root, "/dev/kvm") == read_label(root, "/dev/alias") == LABEL
