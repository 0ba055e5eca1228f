from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from dray.doctor.places import Places
from dray.doctor.state import Living, check_state, look_at_state
from dray.inventory.holds_file import Content
from dray.inventory.ledger import Door, Hold
from dray.kubelet.claims.state_file import encode as encode_claims
from dray.runtime.clock import FakeClock
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.quarantine import REST
from tests.deadly import make_deadly
from tests.doctor.findings_text import text_of, told

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
CLAIM = Hold(Door.DRA, "sim", "gpu-0", ("gpu-0",), owner="default/one", uid="u1", confirmed=True)
PLUGIN = Hold(Door.PLUGIN, "pci", "0000:05:00.0", ("0000:05:00.0",), resource="example.com/gpu", owner="default/web", confirmed=True)  # fmt: skip


def _places(path: Path) -> Places:
    for name in ("state", "device-plugins", "plugins/gpu.example.com"):
        (path / name).mkdir(parents=True)
    return Places(kubelet_dir=path, device_plugin_dir=path / "device-plugins", state_dir=path / "state")


def test_good_files_are_read_with_their_versions(tmp_path: Path) -> None:
    places = _places(tmp_path)
    (tmp_path / "state" / "holds").write_bytes(Format(Content).encode(Content((CLAIM, PLUGIN))))
    (tmp_path / "plugins/gpu.example.com/prepared-claims").write_bytes(Format(bytes, 3).encode(b"{}"))
    (tmp_path / "dra_manager_state").write_bytes(encode_claims(()))
    facts = look_at_state(places, NOW)
    assert {Path(one.path).name: one.version for one in facts.files} == {
        "holds": 1,
        "prepared-claims": 3,
        "dra_manager_state": 0,
    }
    assert facts.holds == (CLAIM, PLUGIN)
    living = Living(frozenset({"u1"}), frozenset({("example.com/gpu", "0000:05:00.0")}))
    assert told(check_state(facts, living)) == {("checkpoints", "ok"), ("ledger", "ok")}
    assert told(check_state(facts, Living())) == {("checkpoints", "ok"), ("ledger", "ok")}


def test_damaged_files_and_copies_that_were_set_aside(tmp_path: Path) -> None:
    places = _places(tmp_path)
    (tmp_path / "state" / "holds").write_bytes(Format(Content).encode(Content())[:-1] + b"x")
    (tmp_path / "state" / "sockets").write_bytes(b"")
    (tmp_path / "device-plugins" / "kubelet_internal_checkpoint").write_text('{"Data": {}, "Checksum": 1}')
    (tmp_path / "state" / "holds.corrupt-20300101T000000Z-0").write_text("")
    facts = look_at_state(places, NOW)
    findings = list(check_state(facts, Living()))
    assert told(findings) == {("checkpoints", "warning"), ("set-aside", "note")}
    told_text = text_of(findings, "checkpoints")
    assert "checksum is wrong" in told_text
    assert "it is empty" in told_text
    assert "kubelet_internal_checkpoint" in told_text


def test_holds_of_who_is_gone(tmp_path: Path) -> None:
    places = _places(tmp_path)
    (tmp_path / "state" / "holds").write_bytes(Format(Content).encode(Content((CLAIM, PLUGIN))))
    findings = list(check_state(look_at_state(places, NOW), Living(frozenset(), frozenset())))
    assert ("ledger", "warning") in told(findings)
    text = text_of(findings, "ledger")
    assert "gpu-0 is held for claim default/one, which is gone" in text
    assert "0000:05:00.0 is held for pod default/web" in text


def test_nothing_there_is_nothing_wrong(tmp_path: Path) -> None:
    places = Places(kubelet_dir=tmp_path / "a", device_plugin_dir=tmp_path / "b", state_dir=tmp_path / "c")
    assert told(check_state(look_at_state(places, NOW), Living())) == {("checkpoints", "ok")}


def test_objects_that_a_part_leaves_alone(tmp_path: Path) -> None:
    places, clock = _places(tmp_path), FakeClock(NOW)
    make_deadly(tmp_path / "state", "pods/default/a/1", clock)
    make_deadly(tmp_path / "plugins/gpu.example.com", "prepare resourceclaims/default/b/2", clock)
    findings = list(check_state(look_at_state(places, clock.now()), Living()))
    assert ("quarantine", "warning") in told(findings)
    text = text_of(findings, "quarantine")
    assert (
        "pods/default/a/1 is left alone until 2030-01-03 03:04 UTC: the process ended 3 times while it was handled"
        in text
    )
    assert (
        "resourceclaims/default/b/2 is left alone" in text
        and "gpu.example.com/quarantine/deaths.json" in text
    )
    assert "quarantine" not in {one.check for one in check_state(look_at_state(places, NOW + REST), Living())}
