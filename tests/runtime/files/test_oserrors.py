from __future__ import annotations

import errno
import os

import pytest

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    HardwareError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from dray.runtime.files.oserrors import from_os_error

CASES: list[tuple[int, type[Error], str]] = [
    (errno.ENOENT, NotFoundError, "does not exist"),
    (errno.EACCES, DeniedError, "permission denied"),
    (
        errno.EPERM,
        DeniedError,
        "root or a capability" if os.geteuid() else "device cgroup or a security policy",
    ),
    (errno.ELOOP, DeniedError, "symbolic link"),
    (errno.EEXIST, ConflictError, "exists already"),
    (errno.EBUSY, ConflictError, "in use"),
    (errno.EINVAL, InvalidError, "Invalid argument"),
    (errno.ENOTDIR, InvalidError, "not a directory"),
    (errno.ENOSPC, UnavailableError, "disk is full"),
    (errno.EDQUOT, UnavailableError, "quota"),
    (errno.EROFS, UnavailableError, "read-only"),
    (errno.EMFILE, UnavailableError, "ulimit"),
    (errno.EIO, HardwareError, "I/O error"),
    (errno.ENODEV, HardwareError, "No such device"),
]


@pytest.mark.parametrize(("code", "kind", "text"), CASES)
def test_each_code_says_whose_fault_it_is_and_what_to_do(code: int, kind: type[Error], text: str) -> None:
    error = from_os_error(OSError(code, os.strerror(code)), "open", "/some/path", after="try later")
    assert type(error) is kind
    assert str(error).startswith("cannot open '/some/path': ") and str(error).endswith("; try later")
    assert text in str(error) and "\n" not in str(error)


def test_every_code_of_the_kernel_becomes_one_of_our_errors() -> None:
    for code in errno.errorcode:
        assert isinstance(from_os_error(OSError(code, "x"), "open", "/p"), Error)


def test_errors_without_a_code_are_told_by_their_text() -> None:
    assert "path too long" in str(from_os_error(OSError("AF_UNIX path too long"), "bind", "/p"))
    assert type(from_os_error(TimeoutError("timed out"), "connect to", "/p")) is UnavailableError
