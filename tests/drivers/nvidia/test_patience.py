from __future__ import annotations

import threading

import pytest

from dray.drivers.nvidia.patience import Patience
from dray.errors import UnavailableError
from tests.waiting import PATIENCE, block_until


def test_a_quick_call_is_answered() -> None:
    patience: Patience[int] = Patience(5.0)
    assert [patience.run(lambda: 1), patience.run(lambda: 2)] == [1, 2]


def test_an_error_is_the_callers() -> None:
    def fail() -> int:
        raise UnavailableError("gone")

    patience: Patience[int] = Patience(5.0)
    with pytest.raises(UnavailableError, match="gone"):
        patience.run(fail)
    assert patience.run(lambda: 3) == 3


def test_a_call_that_hangs_is_the_only_one() -> None:
    go, calls = threading.Event(), []

    def slow() -> int:
        calls.append(1)
        go.wait(PATIENCE)
        return 7

    patience: Patience[int] = Patience(0.01)
    assert [patience.run(slow) for _ in range(3)] == [None, None, None]
    assert calls == [1]
    go.set()
    assert block_until(lambda: patience.run(slow)) == 7
