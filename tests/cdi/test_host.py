from __future__ import annotations

import os
from pathlib import Path

from dray.cdi.host import HostNode, host_stat


def test_nodes_of_this_machine(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o640)
    (tmp_path / "pipe").chmod(0o640)
    (tmp_path / "file").touch(0o600)
    (tmp_path / "link").symlink_to("/dev/null")
    null = host_stat("/dev/null")
    assert null is not None and (null.type, null.major, null.minor) == ("c", 1, 3)
    assert host_stat(str(tmp_path / "pipe")) == HostNode("p", 0, 0, 0o640, os.geteuid(), os.getegid())
    for name in ("file", "link", "."):
        other = host_stat(str(tmp_path / name))
        assert other is not None and other.type == ""
    assert host_stat(str(tmp_path / "none-such")) is None
    assert host_stat("/dev/\0") is None
