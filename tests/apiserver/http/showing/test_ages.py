from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dray.apiserver.http.showing.ages import age

NOW = datetime(2026, 11, 15, tzinfo=UTC)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 7 * HOUR, "3d7h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR + 30 * DAY, "2y30d"),
        (8 * YEAR + 40 * DAY, "8y"),
    ],
)
def test_as_kubectl_shows_it(seconds: float, shown: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == shown


def test_no_moment() -> None:
    assert age(None, NOW) == "<unknown>"
