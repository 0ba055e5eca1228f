from __future__ import annotations

from itertools import pairwise

import pytest

from dray.kubelet.claims.meters import BUCKETS


def test_the_buckets_are_a_kubelets() -> None:
    """`metrics.ExponentialBucketsRange(.1, 40, 15)`."""
    assert len(BUCKETS) == 15
    assert BUCKETS[0] == pytest.approx(0.1) and BUCKETS[-1] == pytest.approx(40.0)
    ratios = [after / before for before, after in pairwise(BUCKETS)]
    assert ratios == pytest.approx([400 ** (1 / 14)] * 14)
