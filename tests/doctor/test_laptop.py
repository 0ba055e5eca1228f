from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dray.doctor.laptop import Laptop, check_laptop, errors_of, look_at_laptop
from dray.doctor.places import Places, State, Text
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.up.place import RunningUp, Supervising, UpPlace
from tests.doctor.findings_text import text_of, told


async def test_a_machine_where_nothing_runs(tmp_path: Path) -> None:
    facts = await look_at_laptop(Places(is_laptop=True, data_dir=tmp_path))
    assert facts.running is None
    found = told(check_laptop(facts, is_laptop=True))
    assert ("dray-up", "ok") in found
    assert {name for name, _ in found} == {"dray-up", "containers", "ports"}
    assert told(check_laptop(facts, is_laptop=False)) == {("dray-up", "ok")}


async def test_one_that_runs_badly(tmp_path: Path) -> None:
    own: dict[str, Any] = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "boot": boot_id()}
    place = UpPlace(tmp_path)
    place.write(
        RunningUp(
            **own,
            version="0.1.0",
            server="https://127.0.0.1:1",
            kubeconfig=str(tmp_path / "none"),
            metrics={"agent": "http://127.0.0.1:1/metrics"},
        )
    )
    place.write(Supervising(**own, restarts=3, last="signal 9"))
    place.log.write_text("ts=1 level=info msg=fine\nts=2 level=error msg=disk\n")
    facts = await look_at_laptop(Places(is_laptop=True, data_dir=tmp_path))
    findings = list(check_laptop(facts, is_laptop=True))
    assert {
        ("dray-up", "ok"),
        ("dray-up-parts", "fault"),
        ("dray-up-restarts", "warning"),
        ("dray-up-log", "note"),
    } <= told(findings)
    assert "signal 9" in text_of(findings, "dray-up-restarts")
    assert "msg=disk" in text_of(findings, "dray-up-log")


def test_containers_and_ports() -> None:
    good = Laptop(runtime="runc", why="containers of /usr/bin/runc", has_cgroups=True)
    assert {("containers", "ok"), ("ports", "ok")} <= told(check_laptop(good, is_laptop=True))
    poor = Laptop(runtime="runc", why="containers of /usr/bin/runc", taken=(6443,))
    assert {("containers", "warning"), ("ports", "note")} <= told(check_laptop(poor, is_laptop=True))


def test_errors_of_both_formats() -> None:
    log = 'level=error a\n{"ts": "x", "level": "error", "msg": "b"}\nlevel=warning c\n' + "x" * 1000
    assert [line[-1] for line in errors_of(log)] == ["a", "}"]
    assert errors_of("") == []
    assert Text("/x", State.MISSING).text == ""
