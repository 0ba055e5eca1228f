"""What Kubernetes' gates are by default, what `--feature-gates` may say, and what is on then."""

from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.semantics.features import (
    FLAG,
    RELEASES,
    Gate,
    Stage,
    enabled_gates,
    graduation,
    parse_feature_gates,
)

SINCE_36 = {
    Gate.ADMIN_ACCESS,
    Gate.CONSUMABLE_CAPACITY,
    Gate.DEVICE_BINDING_CONDITIONS,
    Gate.DEVICE_TAINTS,
    Gate.EXTENDED_RESOURCE,
    Gate.PARTITIONABLE_DEVICES,
    Gate.PRIORITIZED_LIST,
    Gate.RESOURCE_CLAIM_DEVICE_STATUS,
}


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        (34, {Gate.ADMIN_ACCESS, Gate.PRIORITIZED_LIST, Gate.RESOURCE_CLAIM_DEVICE_STATUS}),
        (35, {Gate.ADMIN_ACCESS, Gate.PRIORITIZED_LIST, Gate.RESOURCE_CLAIM_DEVICE_STATUS}),
        (36, SINCE_36),
        (37, {*SINCE_36, Gate.DEVICE_TAINT_RULES}),
    ],
)
def test_defaults_of_a_release(minor: int, expected: set[Gate]) -> None:
    assert enabled_gates(minor=minor) == expected


@pytest.mark.parametrize(
    ("gate", "stages"),
    [
        (Gate.LIST_TYPE_ATTRIBUTES, (None, None, Stage.ALPHA, Stage.ALPHA)),
        (Gate.DEVICE_TAINT_RULES, (None, Stage.ALPHA, Stage.BETA, Stage.GA)),
        (Gate.WORKLOAD_RESOURCE_CLAIMS, (None, None, Stage.ALPHA, Stage.BETA)),
        (Gate.PRIORITIZED_LIST, (Stage.BETA, Stage.BETA, Stage.GA, Stage.GA)),
    ],
)
def test_a_gate_graduates(gate: Gate, stages: tuple[Stage | None, ...]) -> None:
    found = [graduation(gate, minor) for minor in RELEASES]
    assert tuple(one and one.stage for one in found) == stages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" , ", {}),
        ("DRADeviceTaints=false", {Gate.DEVICE_TAINTS: False}),
        (
            " DRADeviceTaints = False,, DRAWorkloadResourceClaims=TRUE",
            {Gate.DEVICE_TAINTS: False, Gate.WORKLOAD_RESOURCE_CLAIMS: True},
        ),
        ("DRADeviceTaints=true,DRADeviceTaints=false", {Gate.DEVICE_TAINTS: False}),
    ],
)
def test_the_flag_is_read(text: str, expected: dict[Gate, bool]) -> None:
    assert parse_feature_gates(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Nope=true", "no gate 'Nope': there are DRAAdminAccess, DRAConsumableCapacity, "),
        ("DRADeviceTaint=true", "no gate 'DRADeviceTaint': did you mean DRADeviceTaints? There are DRAAdmin"),
        ("draadminaccess=true", "no gate 'draadminaccess': did you mean DRAAdminAccess? There are "),
        ("DRADeviceTaints", "'DRADeviceTaints' must be DRADeviceTaints=true or DRADeviceTaints=false"),
        ("DRADeviceTaints=1", "'DRADeviceTaints=1' must be DRADeviceTaints=true or DRADeviceTaints=false"),
        ("DRADeviceTaints=true,=true", "no gate '': there are "),
    ],
)
def test_what_the_flag_may_not_say(text: str, said: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_feature_gates(text)
    assert str(caught.value).startswith(f"{FLAG}: {said}")
    assert caught.value.field == FLAG


@pytest.mark.parametrize(
    ("switches", "gate", "is_on"),
    [
        ({Gate.WORKLOAD_RESOURCE_CLAIMS: True}, Gate.WORKLOAD_RESOURCE_CLAIMS, True),
        ({Gate.ADMIN_ACCESS: False}, Gate.ADMIN_ACCESS, False),
        ({Gate.DEVICE_TAINTS: False}, Gate.DEVICE_TAINT_RULES, False),
        ({Gate.DEVICE_TAINTS: False, Gate.DEVICE_TAINT_RULES: True}, Gate.DEVICE_TAINT_RULES, False),
        ({Gate.RESOURCE_CLAIM_DEVICE_STATUS: False}, Gate.DEVICE_BINDING_CONDITIONS, False),
        ({Gate.DEVICE_TAINT_RULES: False}, Gate.DEVICE_TAINTS, True),
    ],
)
def test_what_is_on(switches: dict[Gate, bool], gate: Gate, is_on: bool) -> None:
    assert (gate in enabled_gates(switches)) is is_on
