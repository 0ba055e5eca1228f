from __future__ import annotations

import inspect

from hypothesis import given
from hypothesis import strategies as st

from dray import errors


def test_the_tree_is_flat_and_drawn_in_the_docstring() -> None:
    drawn = [line.split()[1] for line in (errors.__doc__ or "").splitlines() if "├" in line or "└" in line]
    classes = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == "dray.errors"
    ]
    assert sorted([*drawn, "Error", "InvariantError"]) == sorted(kind.__name__ for kind in classes)
    beside = {errors.Error, errors.InvariantError}
    assert all(kind.__bases__ == ((Exception,) if kind in beside else (errors.Error,)) for kind in classes)


@given(st.text())
def test_an_error_is_one_line(text: str) -> None:
    for kind in (errors.InvalidError, errors.InvariantError):
        assert len(str(kind(text)).splitlines()) <= 1
