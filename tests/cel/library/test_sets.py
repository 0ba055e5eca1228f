from __future__ import annotations

import pytest

from dray.cel.values import EvaluationCancelledError
from tests.cel.library.answers import complaints, evaluate


def test_sets_answer_as_in_kubernetes() -> None:
    assert complaints("sets") == []


def test_work_that_no_limit_would_allow_is_not_begun() -> None:
    with pytest.raises(EvaluationCancelledError):
        evaluate("sets.contains(lists.range(100000), lists.range(100000))")
    with pytest.raises(EvaluationCancelledError):
        evaluate("sets.intersects(lists.range(100000), lists.range(100000).map(i, -1 - i))")
