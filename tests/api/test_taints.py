from __future__ import annotations

import pytest

from dray.api.codec import decode, encode
from dray.api.taints import (
    DeviceTaint,
    DeviceToleration,
    Effect,
    Taint,
    Toleration,
    is_tolerated,
    tolerates,
    untolerated,
)

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="k"), False),
        (Toleration(key="j", operator="Exists"), False),
        (Toleration(value="v"), True),
        (Toleration(key="k", operator="Near", value="v"), False),
        (Toleration(key="k", operator="Gt", value="5"), False),
    ],
)
def test_one_toleration_and_one_taint(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, TAINT) is tolerated
    device = DeviceTaint(key=TAINT.key, value=TAINT.value, effect=TAINT.effect)
    same = DeviceToleration(
        key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
    )
    assert tolerates(same, device) is tolerated


@pytest.mark.parametrize(
    ("operator", "limit", "value", "tolerated"),
    [
        ("Gt", "5", "6", True), ("Gt", "5", "5", False), ("Lt", "5", "4", True), ("Lt", "-5", "-6", True),
        ("Gt", "5", "06", False), ("Gt", "05", "6", False), ("Gt", "+5", "6", False), ("Gt", "5", "", False),
        ("Gt", "5", "9223372036854775807", True), ("Gt", "5", "9223372036854775808", False), ("Lt", "0", "-0", False),
        ("Lt", "5", "x", False), ("Gt", "5", "٦", False),
    ],
)  # fmt: skip
def test_numbers_compare_only_behind_their_gate(
    operator: str, limit: str, value: str, tolerated: bool
) -> None:
    toleration = Toleration(key="k", operator=operator, value=limit)
    taint = Taint(key="k", value=value, effect="NoSchedule")
    assert tolerates(toleration, taint, compare_numbers=True) is tolerated
    assert not tolerates(toleration, taint)


def test_what_keeps_a_pod_or_claim_away() -> None:
    taints = [DeviceTaint(key=effect.value, effect=effect.value) for effect in Effect]
    taints.append(DeviceTaint(key="new", effect="Someday"))
    assert [taint.key for taint in untolerated(taints, ())] == ["NoSchedule", "NoExecute"]
    allowed = [DeviceToleration(key="NoExecute", operator="Exists")]
    assert [taint.key for taint in untolerated(taints, allowed)] == ["NoSchedule"]
    assert [taint.key for taint in untolerated(taints, (), effects=["PreferNoSchedule"])] == [
        "PreferNoSchedule"
    ]
    assert untolerated((), allowed) == ()
    assert is_tolerated(taints[0], [*allowed, DeviceToleration(operator="Exists")])


def test_names_on_the_wire() -> None:
    text = b'{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":0}'
    assert encode(decode(text, Toleration)) == text == encode(decode(text, DeviceToleration))
    text = b'{"key":"k","value":"v","effect":"Future","timeAdded":"2026-01-02T03:04:05Z"}'
    assert encode(decode(text, Taint)) == text == encode(decode(text, DeviceTaint))
