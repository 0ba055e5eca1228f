from __future__ import annotations

import pytest

from dray.allocation.allocator import Options
from dray.allocation.features import Tier
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, KUBERNETES_1_37, Profile
from dray.scheduler.claims.settings import Quirks, Settings
from dray.scheduler.claims.tracking import Tracker
from tests.scheduler.claims.driving import settings_with

BETA = ("PartitionableDevices", "DeviceTaints", "DeviceBindingConditions", "ConsumableCapacity")


@pytest.mark.parametrize(
    ("gates", "tier"),
    [
        pytest.param(",".join(f"DRA{one}=false" for one in BETA), Tier.STABLE, id="only-GA"),
        pytest.param("", Tier.INCUBATING, id="default"),
        pytest.param("DRAListTypeAttributes=true", Tier.INCUBATING, id="alpha"),
    ],
)
def test_allocator_selection(gates: str, tier: Tier) -> None:
    assert Tracker(settings_with(gates)).index.rules.tier is tier


@pytest.mark.parametrize(
    ("profile", "has_quirks"), [(KUBERNETES_1_36, True), (KUBERNETES_1_37, True), (CORRECT, False)]
)
def test_quirks_of_a_profile(profile: Profile, has_quirks: bool) -> None:
    assert Settings.of(Options(profile=profile)).quirks == Quirks(has_quirks, has_quirks)
