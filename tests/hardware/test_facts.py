from __future__ import annotations

import errno

import pytest

from dray.errors import HardwareError, UnavailableError
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.runtime.files.oserrors import from_os_error


def test_a_problem_names_the_file_that_the_error_knows() -> None:
    assert problem_of(HardwareError("odd", path="/sys/a/b"), "/sys/a", before="a: ") == Problem(
        "/sys/a/b", "a: odd"
    )
    assert problem_of(HardwareError("odd"), "/sys/a") == Problem("/sys/a", "odd")


def test_what_is_not_the_hosts_fault_is_no_problem_of_a_device() -> None:
    for code in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        cause = OSError(code, "no more")
        error = from_os_error(cause, "read", "/sys/a")
        error.__cause__ = cause
        with pytest.raises(type(error)):
            problem_of(error, "/sys/a")
    cause = OSError(errno.EIO, "broken")
    hosts = UnavailableError("broken")
    hosts.__cause__ = cause
    assert problem_of(hosts, "/sys/a").message == "broken"


def test_texts_are_safe_to_print_and_to_encode() -> None:
    assert showable("Yubico \u00e9") == "Yubico \u00e9"
    evil = showable("a\x1b[2Jb\n\udc80")
    assert evil == "a\ufffd[2Jb\ufffd\ufffd"
    evil.encode()


def test_nothing_found_is_empty() -> None:
    assert Found[int]() == Found((), ())
