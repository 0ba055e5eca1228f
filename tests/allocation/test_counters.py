from __future__ import annotations

import pytest

from tests.allocation.world import (
    PARTITIONS,
    Json,
    case,
    claim,
    counters,
    device,
    picks,
    piece,
    request,
    uses,
)

PROFILES = ("k8s-1.36", "k8s-1.37", "correct")
HELD = {"allocatedDevices": ["driver-a/pool-1/held"]}


def gpu(*parts: tuple[str, str], total: str = "8Gi") -> list[Json]:
    return [
        piece(*(device(name, consumesCounters=uses(amount)) for name, amount in parts), of=2),
        counters(set_1={"mem": total}),
    ]


def test_devices_of_a_pool_draw_on_one_counter() -> None:
    slices = gpu(("a", "4Gi"), ("b", "6Gi"), ("c", "4Gi"))
    assert picks(case(slices, claim(request(2)), features=(PARTITIONS,))) == ["req-0=a", "req-0=c"]
    assert picks(case(slices, claim(request(3)), features=(PARTITIONS,))) is None
    two = (claim(request()), claim(request(), name="claim-1"))
    assert picks(case(slices, *two, features=(PARTITIONS,))) == ["req-0=a", "req-0=c"]


def test_what_is_in_use_is_taken_off() -> None:
    slices = gpu(("held", "6Gi"), ("a", "4Gi"), ("b", "2Gi"))
    assert picks(case(slices, claim(request()), features=(PARTITIONS,), **HELD)) == ["req-0=b"]


def test_devices_on_other_nodes_count() -> None:
    slices = [
        piece(device("a", consumesCounters=uses("4Gi")), of=3),
        piece(device("held", consumesCounters=uses("6Gi")), name="s2", of=3, nodeName="node-2"),
        counters(set_1={"mem": "8Gi"}, of=3),
    ]
    given = case(slices, claim(request()), features=(PARTITIONS,))
    for profile in PROFILES:
        assert picks(given, profile) == ["req-0=a"]
        assert picks(given | HELD, profile) is None


def test_without_the_gate_such_devices_are_not_given() -> None:
    slices = [piece(device("a", consumesCounters=uses("1")), device("b"))]
    assert picks(case(slices, claim(request()))) == ["req-0=b"]


def test_every_counter_must_suffice() -> None:
    both = [*uses("1"), *uses("3", of="set-2")]
    slices = [
        piece(device("a", consumesCounters=both), device("b", consumesCounters=both), of=2),
        counters(set_1={"mem": "9"}, set_2={"mem": "5"}),
    ]
    assert picks(case(slices, claim(request(2)), features=(PARTITIONS,))) is None
    assert picks(case(slices, claim(request()), features=(PARTITIONS,))) == ["req-0=a"]


def test_a_step_back_gives_back() -> None:
    x = 'device.attributes["driver-a"].type == "X"'
    slices = [
        piece(
            device("big", consumesCounters=uses("6Gi"), attributes={"type": {"string": "Y"}}),
            device("small", consumesCounters=uses("2Gi"), attributes={"type": {"string": "Y"}}),
            device("x", consumesCounters=uses("4Gi"), attributes={"type": {"string": "X"}}),
            of=2,
        ),
        counters(set_1={"mem": "8Gi"}),
    ]
    given = case(slices, claim(request(), request(1, x, name="b")), features=(PARTITIONS,))
    assert picks(given) == ["req-0=small", "b=x"]


@pytest.mark.parametrize("profile", PROFILES)
def test_q14_one_overdrawn_counter(profile: str) -> None:
    slices = [
        piece(
            device("held", consumesCounters=uses("4")),
            device("a", consumesCounters=uses("1", of="set-2")),
            device("b", consumesCounters=uses("1")),
            device("free"),
            of=2,
        ),
        counters(set_1={"mem": "3"}, set_2={"mem": "3"}),
    ]
    given = case(slices, claim(request(2)), features=(PARTITIONS,), **HELD)
    assert picks(given, profile) == (["req-0=a", "req-0=free"] if profile == "correct" else None)
    one = given | {"claims": [claim(request())]}
    assert picks(one, profile) == ["req-0=a" if profile == "correct" else "req-0=free"]
