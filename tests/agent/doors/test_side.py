from __future__ import annotations

from dray.agent.doors.side import one_of
from dray.errors import ConflictError


def test_of_several_names_that_are_taken_one_is_told() -> None:
    first, second = ConflictError("gpu.example.com is served"), ConflictError("nic.example.com is served")
    assert one_of(ExceptionGroup("", [ExceptionGroup("", [first]), second])) is first
    assert one_of(ExceptionGroup("", [second])) is second


def test_what_is_no_conflict_is_not_left_out() -> None:
    bug = ValueError("ours")
    failures = ExceptionGroup("", [ConflictError("gpu.example.com is served"), bug])
    assert one_of(failures) is failures
    assert one_of(ExceptionGroup("", [bug])) is bug
