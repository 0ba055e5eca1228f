from __future__ import annotations

import pytest

from dray.bench.measure import Figure, output, seconds_per_call


def test_a_ratio_above_one_means_dray_is_better() -> None:
    assert Figure("time", "µs", 2.0, "peer", 6.0).ratio == 3.0
    assert Figure("rate", "1/s", 2.0, "peer", 6.0, higher_is_better=True).ratio == pytest.approx(1 / 3)
    assert Figure("alone", "µs", 2.0).ratio is None
    assert Figure("broken", "µs", 2.0, "peer", 0.0).ratio is None


def test_a_slower_function_gives_a_larger_figure() -> None:
    assert (
        seconds_per_call(lambda: sum(range(20_000)), budget=0.05)
        > seconds_per_call(lambda: None, budget=0.05)
        > 0
    )


def test_output_is_a_fresh_interpreters() -> None:
    assert output("-c", "print(6 * 7)") == "42\n"
