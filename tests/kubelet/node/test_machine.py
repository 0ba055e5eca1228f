from __future__ import annotations

import os
from pathlib import Path

from dray.api.quantity import Quantity
from dray.kubelet.node.machine import read_machine


def test_facts_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b-1\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2048 kB\nMemFree: 1 kB\n")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("m-1\n")
    (tmp_path / "etc/os-release").write_text('NAME=x\nPRETTY_NAME="Some Linux 1"\n')
    found = read_machine(tmp_path, tmp_path, max_pods=7)
    assert (found.boot_id, found.machine_id, found.os_image) == ("b-1", "m-1", "Some Linux 1")
    assert found.resources["memory"] == Quantity("2Mi")
    assert found.resources["pods"] == Quantity("7")
    assert found.resources["cpu"] == Quantity(str(os.cpu_count()))
    assert found.resources["ephemeral-storage"].value() > 0


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    found = read_machine(tmp_path, tmp_path / "nope")
    assert (found.boot_id, found.machine_id, found.os_image) == ("", "", "")
    assert found.resources["memory"] == Quantity("0")
    assert found.hostname
    assert found.address
