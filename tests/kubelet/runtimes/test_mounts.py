from __future__ import annotations

from pathlib import Path

from dray.kubelet.runtimes.mounts import has_filesystem, is_namespace, mounted_below, overlay_options


def test_what_is_mounted_below() -> None:
    assert Path("/proc") in mounted_below(Path("/proc"))
    assert Path("/proc") in mounted_below(Path("/"))
    assert mounted_below(Path("/proc/1/nothing")) == []


def test_overlay_options_are_escaped() -> None:
    options = overlay_options([Path("/a:b"), Path("/c,d")], Path("/u"), Path("/w"))
    assert options == "lowerdir=/a\\:b:/c\\,d,upperdir=/u,workdir=/w"


def test_namespaces(tmp_path: Path) -> None:
    assert is_namespace(Path("/proc/self/ns/net"))
    assert not is_namespace(tmp_path)
    assert not is_namespace(tmp_path / "no")


def test_filesystems() -> None:
    assert has_filesystem("proc")
    assert not has_filesystem("pro")
