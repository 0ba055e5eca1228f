from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dray.doctor.containerd import (
    Cdi,
    Containerd,
    check_cdi,
    check_containerd,
    look_at_cdi,
    look_at_containerd,
)
from dray.doctor.places import Places, State
from tests.doctor.findings_text import text_of, told

V2 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n'
V3 = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n"


def _places(path: Path, text: str) -> Places:
    (path / "config.toml").write_text(text)
    return Places(
        containerd_config=path / "config.toml", containerd_socket=path / "none.sock", cdi_dir=path / "cdi"
    )


@pytest.mark.parametrize("head", [V2, V3])
async def test_both_formats(tmp_path: Path, head: str) -> None:
    found = await look_at_containerd(
        _places(tmp_path, f"{head}enable_cdi = true\ncdi_spec_dirs = ['/etc/cdi', '/x']\n")
    )
    assert (found.enabled, found.directories, found.config) == (True, ("/etc/cdi", "/x"), State.THERE)
    off = await look_at_containerd(_places(tmp_path, f"{head}enable_cdi = false\n"))
    assert ("cdi-enabled", "fault") in told(check_containerd(off, "/var/run/cdi"))


async def test_imports_win(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "50-cdi.toml").write_text(f"{V2}enable_cdi = true\n")
    (tmp_path / "conf.d" / "note.txt").write_text("=")
    text = f"imports = ['conf.d/*.toml', '{tmp_path}/config.toml']\n{V2}enable_cdi = false\n"
    found = await look_at_containerd(_places(tmp_path, text))
    assert found.enabled is True


async def test_a_broken_file_and_one_that_is_missing(tmp_path: Path) -> None:
    found = await look_at_containerd(_places(tmp_path, "version = = 2"))
    assert found.config is State.BROKEN
    assert ("cdi-enabled", "fault") in told(check_containerd(found, "/var/run/cdi"))
    missing = Containerd()
    assert told(check_containerd(missing, "/var/run/cdi")) == {("runtime", "note")}


@pytest.mark.parametrize(
    ("version", "level"), [("v2.1.4", "ok"), ("2.0.0", "ok"), ("1.7.24", "fault"), ("", "note")]
)
def test_the_default_depends_on_the_version(version: str, level: str) -> None:
    facts = Containerd(socket=State.THERE, runtime="containerd", version=version)
    assert ("cdi-enabled", level) in told(check_containerd(facts, "/var/run/cdi"))


def test_where_it_looks() -> None:
    facts = Containerd(socket=State.THERE, runtime="containerd", version="2.1.0", directories=("/etc/cdi",))
    findings = list(check_containerd(facts, "/var/run/cdi"))
    assert ("cdi-directories", "fault") in told(findings)
    assert "add /var/run/cdi to cdi_spec_dirs" in text_of(findings, "cdi-directories")
    same = replace(facts, directories=("/etc/cdi", "/run/cdi"))
    assert ("cdi-directories", "ok") in told(check_containerd(same, "/var/run/cdi"))
    other = replace(facts, runtime="cri-o")
    assert told(check_containerd(other, "/var/run/cdi")) == {("runtime", "ok"), ("cdi-enabled", "note")}


def test_without_rights() -> None:
    facts = Containerd(socket=State.DENIED, config=State.DENIED, config_path="/etc/containerd/config.toml")
    assert told(check_containerd(facts, "/var/run/cdi")) == {("runtime", "note"), ("cdi-enabled", "note")}


def test_spec_files(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    spec = (
        '{"cdiVersion": "0.6.0", "kind": "example.com/gpu", "devices": '
        '[{"name": "one", "containerEdits": {"env": ["A=b"]}}]}'
    )
    (tmp_path / "a.json").write_text(spec)
    (tmp_path / "b.json").write_text(spec)
    findings = list(check_cdi(look_at_cdi(Places(cdi_dir=tmp_path))))
    assert told(findings) == {("cdi-files", "warning"), ("cdi-conflict", "warning")}
    assert str(tmp_path / "bad.json") in text_of(findings, "cdi-files")
    assert "example.com/gpu=one" in text_of(findings, "cdi-conflict")
    assert told(check_cdi(Cdi())) == {("cdi-files", "ok")}
