from __future__ import annotations

import hashlib
import io
import socket
import tarfile
from pathlib import Path

import pytest

from dray.errors import ProtocolError, UnavailableError
from dray.testing.browser.install import fetch, install, keep_axe
from dray.testing.browser.parts import PROGRAM, Parts, locate


def _package(text: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as package:
        member = tarfile.TarInfo("package/axe.min.js")
        member.size = len(text)
        package.addfile(member, io.BytesIO(text))
    return packed.getvalue()


def test_the_one_file_is_kept(tmp_path: Path) -> None:
    package = _package(b"axe")
    keep_axe(package, tmp_path / "cache" / "axe.js", hashlib.sha512(package).hexdigest())
    assert (tmp_path / "cache" / "axe.js").read_bytes() == b"axe"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["axe.js"]


def test_another_package_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="SHA-512"):
        keep_axe(_package(b"evil"), tmp_path / "axe.js")
    assert list(tmp_path.iterdir()) == []


def test_nobody_answers() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))  # bound and not listening
        with pytest.raises(UnavailableError, match="cannot fetch"):
            fetch(f"http://127.0.0.1:{one.getsockname()[1]}/axe.tgz")


def test_what_is_there_is_not_installed_again(tmp_path: Path) -> None:
    axe = tmp_path / "axe.js"
    axe.touch()
    said: list[str] = []
    install(Parts(tmp_path / "chromium", axe), said.append)
    assert said == []


def test_parts_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Parts(None, tmp_path / "axe.js").missing() == ["chromium", "axe-core"]
    monkeypatch.setenv(PROGRAM, "/opt/browser")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = locate()
    assert found.browser == Path("/opt/browser")
    assert found.axe.is_relative_to(tmp_path)
    assert found.missing() == ["axe-core"]
