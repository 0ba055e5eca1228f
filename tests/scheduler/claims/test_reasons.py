from __future__ import annotations

from dray.allocation.explanation.refusal import Refusal
from dray.allocation.features import Tier
from dray.scheduler.claims.reasons import one_line


def test_what_keeps_devices_from_going_together_is_said_where_it_is_known() -> None:
    assert one_line(Refusal("n", Tier.STABLE, "correct", obstacles=("first", "second"))) == "first"
    assert "do not go together" in one_line(Refusal("n", Tier.STABLE, "correct"))
    assert one_line(Refusal("n", Tier.STABLE, "correct", reason="no", obstacles=("first",))) == "no"
