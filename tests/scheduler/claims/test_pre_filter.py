from __future__ import annotations

import pytest

from dray.allocation.allocator import Options
from dray.allocation.profiles import CORRECT
from dray.scheduler.claims.pre_filter import _look
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from tests.scheduler.claims.objects import allocated, pod

SETTINGS = Settings.of(Options(profile=CORRECT))
USERS = tuple(pod(name=f"user-{number}") for number in range(257))


@pytest.mark.parametrize(("users", "is_full"), [(255, False), (256, True), (257, True)])
def test_a_claim_has_256_users_at_most(users: int, is_full: bool) -> None:
    claim = allocated(users=USERS[:users])
    status, _ = _look(pod("my-claim"), claim, Tracker(SETTINGS), SETTINGS, is_special=False)
    assert status.is_success != is_full
    status, _ = _look(USERS[0], claim, Tracker(SETTINGS), SETTINGS, is_special=False)
    assert status.is_success, "one of its users"
