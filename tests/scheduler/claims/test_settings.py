from __future__ import annotations

import pytest

from dray.allocation.allocator import Options
from dray.allocation.budget import FILTER_SECONDS
from dray.allocation.features import Tier, features_for
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, KUBERNETES_1_37, Profile
from dray.errors import InvalidError
from dray.scheduler.claims.settings import Quirks, Settings
from dray.scheduler.claims.tracking import Tracker
from dray.semantics.features import Gate
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
    assert Settings.of(Options(profile=profile)).quirks == Quirks(
        has_quirks, has_quirks, has_quirks, has_quirks
    )


def test_gates_are_off_as_in_kubernetes_unless_somebody_says_otherwise() -> None:
    default = Settings.of_gates(KUBERNETES_1_36)
    options = Options(features_for(KUBERNETES_1_36), KUBERNETES_1_36, seconds=FILTER_SECONDS)
    assert default == Settings.of(options)
    assert default.extended_resource
    assert not default.workload_claims
    assert not default.node_allocatable
    switches = {
        Gate.WORKLOAD_RESOURCE_CLAIMS: True,
        Gate.NODE_ALLOCATABLE_RESOURCES: True,
        Gate.EXTENDED_RESOURCE: False,
    }
    own = Settings.of_gates(KUBERNETES_1_36, switches)
    assert (own.extended_resource, own.workload_claims, own.node_allocatable) == (False, True, True)
    assert own.options == default.options
    without_taints = {Gate.DEVICE_TAINTS: False}
    other = Settings.of_gates(KUBERNETES_1_36, without_taints | {Gate.WORKLOAD_RESOURCE_CLAIMS: True})
    assert other.options.features == features_for(KUBERNETES_1_36, without_taints)
    assert other.workload_claims


def test_single_quirks_are_switched() -> None:
    assert Quirks().switched("Q16, Q17") == Quirks(status_ignores_share=True, pending_last=True)
    assert Quirks(True, True, True, True).switched("-Q17") == Quirks(True, False, True, True)
    assert Quirks(True).switched("") == Quirks(True)
    with pytest.raises(InvalidError, match="no quirk 'Q7': there are Q16, Q17"):
        Quirks().switched("Q7")
