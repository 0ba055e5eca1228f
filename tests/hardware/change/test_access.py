from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError, Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.change.access import Access, refused
from dray.runtime.files.oserrors import from_os_error

FILE = "/sys/bus/pci/drivers/vfio-pci/bind"


def answer(code: int, advice: str = "") -> Error:
    cause = OSError(code, os.strerror(code))
    error = from_os_error(cause, "write", FILE)
    error.__cause__ = cause
    return refused(error, "0000:05:00.0", FILE, {code: advice} if advice else {})


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (errno.ENOENT, NotFoundError, "does not exist"),
        (errno.ENODEV, NotFoundError, "no such device"),
        (errno.EACCES, DeniedError, "capability"),
        (errno.EPERM, DeniedError, "capability"),
        (errno.EROFS, DeniedError, "mount namespace"),
        (errno.EBUSY, ConflictError, "stop the workload"),
        (errno.EEXIST, ConflictError, "exists already"),
        (errno.EINVAL, HardwareError, "invalid"),
        (errno.ENOSPC, HardwareError, "No space left"),
        (errno.EIO, HardwareError, "kernel log"),
        (errno.ERANGE, HardwareError, "out of range"),
    ],
)
def test_every_refusal_names_the_device_the_file_and_what_to_do(
    code: int, kind: type[Error], told: str
) -> None:
    error = answer(code)
    assert type(error) is kind
    for text in ("0000:05:00.0", FILE, told, errno.errorcode[code]):
        assert text in str(error)
    assert "choose another" in str(answer(code, "choose another"))


def test_a_real_kernel_refuses(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"me: cannot write /oom_score_adj: .* \(EINVAL\)") as caught:
        Access(Path("/proc/self")).write("me", "/oom_score_adj", "nonsense")
    assert (caught.value.device, caught.value.path) == ("me", "/oom_score_adj")


def test_links_are_followed_in_sys_only_and_stay_inside(tmp_path: Path) -> None:
    host = Access(tmp_path / "root")
    for place in ("root/sys/devices", "root/dev", "sys"):
        (tmp_path / place).mkdir(parents=True)
    for file in ("root/sys/devices/real", "root/dev/real", "sys/real"):
        (tmp_path / file).write_text("old\n")
    (tmp_path / "root/sys/inside").symlink_to("devices/real")
    (tmp_path / "root/sys/out").symlink_to("../../sys/real")
    (tmp_path / "root/sys/absolute").symlink_to(tmp_path / "sys/real")
    (tmp_path / "root/dev/link").symlink_to("real")
    host.write("x", "/sys/inside", "new")
    assert (tmp_path / "root/sys/devices/real").read_text() == "new\n"
    for path in ("/sys/out", "/sys/absolute"):
        with pytest.raises(NotFoundError, match=path):
            host.write("x", path, "new")
    with pytest.raises(DeniedError, match="symbolic link"):
        host.write("x", "/dev/link", "new")
    assert (tmp_path / "sys/real").read_text() == (tmp_path / "root/dev/real").read_text() == "old\n"


def test_nothing_but_a_file_is_written(tmp_path: Path) -> None:
    """Opening a FIFO would hang, a device node may act."""
    (tmp_path / "sys").mkdir()
    os.mkfifo(tmp_path / "sys/pipe")
    for path in ("/sys/pipe", "/sys"):
        with pytest.raises(InvalidError, match="not a regular file"):
            Access(tmp_path).write("x", path, "1")


def test_waiting_is_bounded_and_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, looks, slept = Access(tmp_path), 0, list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(time, "sleep", slept.append)

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    assert not host.wait(look, 2.0)
    assert 2.0 <= sum(slept) < 2.1
    assert looks == len(slept) + 1 < 60
    assert host.wait(lambda: True, 0)
    assert looks == len(slept) + 1


def test_a_writable_file_system_is_not_read_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not Access(tmp_path).is_read_only("/file")
    assert not Access(tmp_path).is_read_only("/missing")
