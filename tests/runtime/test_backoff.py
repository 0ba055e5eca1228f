from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dray.runtime.backoff import Backoff, BackoffPolicy


def test_grows_to_the_limit_and_starts_over() -> None:
    backoff = Backoff(BackoffPolicy(first=1, factor=2, limit=10, jitter=0))
    assert [backoff.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert backoff.next() == 1


@given(st.integers(0, 5000), st.floats(0, 1), st.integers())
def test_never_above_the_limit_plus_its_spread(failures: int, jitter: float, seed: int) -> None:
    backoff = Backoff(BackoffPolicy(jitter=jitter), random.Random(seed), failures)
    assert 0 < backoff.next() <= 30.0 * (1 + jitter)
