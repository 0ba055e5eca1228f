"""Every hand-made case has exactly the faults expected of it; the same cases go to a real API server in `make e2e`."""

from __future__ import annotations

import pytest

from tests.api.cases.case import Case
from tests.api.cases.ours import our_errors, our_faults
from tests.api.validation_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    assert our_faults(case) == case.faults, [str(error) for error in our_errors(case)]


def test_names_are_unique() -> None:
    names = [f"{case.name} {case.status} {case.old is None}" for case in CASES]
    assert sorted({name for name in names if names.count(name) > 1}) == []
