from __future__ import annotations

from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits
from dray.drivers.contract import Health, Prepared, Problem
from dray.drivers.health import check_required, health_for, why_missing
from dray.errors import HardwareError
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host


def test_the_first_missing_node_is_named(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.char_device("/dev/a", 10, 1)
    root, problems = HostRoot(tmp_path), list[Problem]()
    assert why_missing(root, ("/dev/a",), problems) == ""
    assert why_missing(root, ("/dev/a", "/dev/b", "/dev/c"), problems) == "/dev/b does not exist"
    assert problems == []
    host.unreadable("/dev/a")
    assert "not a device node" in why_missing(root, ("/dev/a",), problems)
    assert [problem.path for problem in problems] == ["/dev/a"]


def test_a_reason_is_what_makes_unhealthy() -> None:
    assert health_for("") is Health.HEALTHY
    assert health_for("gone") is Health.UNHEALTHY


def test_what_is_required_must_be_there(tmp_path: Path) -> None:
    host = Host(tmp_path)
    node = host.char_device("/dev/iommu", 10, 125)
    prepared = Prepared(ContainerEdits(), required=("/dev/iommu",))
    check_required(HostRoot(tmp_path), prepared)
    node.remove()
    with pytest.raises(HardwareError, match="/dev/iommu") as caught:
        check_required(HostRoot(tmp_path), prepared)
    assert caught.value.path == "/dev/iommu"
