"""What keeps devices from going together: told where it is so, and never where something fits."""

from __future__ import annotations

from dray.allocation.cases import read_case
from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.refusal import Explainer
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import Features
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36
from tests.allocation.dumps import claims, held_claims, holding, situation, slices
from tests.allocation.generate import generate_case
from tests.allocation.world import (
    Json,
    claim,
    counters,
    device,
    devices,
    every,
    first,
    piece,
    request,
    uses,
    wish,
)
from tests.campaign import seeds

NUMA = {"matchAttribute": "driver-a/numa"}
OWN = {"distinctAttribute": "driver-a/numa"}


def on_numa(*nodes: int, **fields: object) -> Json:
    made = [
        device(f"d-{number}", attributes={"numa": {"int": node}}, **fields)
        for number, node in enumerate(nodes)
    ]
    return piece(*made)


def told(wanted: Json, *raw: Json, held: tuple[Json, ...] = ()) -> list[str]:
    one = situation(slices(*raw), claims(wanted, *held))
    node, pending = one.cluster.nodes[0], workloads_of(one.cluster)[0].pending
    assert one.allocator.allocate(node, pending) is None
    found = Explainer(one.allocator, {}).explain(node, pending).obstacles
    return [text.replace(" of claim default/claim-0", "") for text in found]


def test_constraints() -> None:
    assert told(claim(request(3), constraints=[NUMA]), on_numa(0, 0, 1, 1)) == [
        "matchAttribute driver-a/numa: no more than 2 of 4 devices left have the same value, 3 are wanted"
    ]
    assert told(claim(request(3), constraints=[OWN]), on_numa(0, 0, 1, 1)) == [
        "distinctAttribute driver-a/numa: 4 devices left have 2 values, 3 devices with values of their own are wanted"
    ]
    here = 'device.attributes["driver-a"].numa == 0'
    there = 'device.attributes["driver-a"].numa == 1'
    both = claim(request(1, here), request(1, there, name="b"), constraints=[NUMA])
    assert told(both, on_numa(0, 0, 1, 1)) == [
        "matchAttribute driver-a/numa: no value has enough devices for each request"
    ]
    one_of = claim(first(wish(3), wish(4)), constraints=[NUMA])
    assert told(one_of, on_numa(0, 0, 1, 1))[0].endswith("3 are wanted")


def test_devices_that_are_wanted_twice() -> None:
    wanted = claim(request(2), request(1, name="b"), request(1, name="c"))
    assert told(wanted, piece(*devices("x", "y", "z"))) == [
        "requests req-0, b, c: 4 devices are wanted, 3 left for them together"
    ]


def test_counters() -> None:
    parts = [device(f"p-{number}", consumesCounters=uses("2")) for number in range(4)]
    sets = counters(set_1={"mem": "7"})
    text = "counters set-1: no more than 2 of 3 devices left go together, 3 are wanted"
    assert told(claim(request(3)), piece(*parts, of=2), sets, held=(holding("a", "p-0"),)) == [text]
    assert told(claim(every()), piece(*parts, of=2), sets)[0].startswith(
        "counters set-1: no more than 3 of 4"
    )


def test_a_request_that_is_short_needs_no_more_words() -> None:
    assert told(claim(request(5), constraints=[NUMA]), on_numa(0, 0, 1, 1)) == []
    one_by_one = claim(request(1, "false"), request(3, name="b"), constraints=[NUMA])
    assert told(one_by_one, on_numa(0, 0, 1, 1)) == []


def test_nothing_is_told_where_it_fits() -> None:
    fitting = 0
    for seed in seeds(300, 20_000):
        case = read_case(generate_case(seed, tier=("stable", "incubating", "experimental")[seed % 3]))
        cluster = Cluster((case.node,), case.slices, (*held_claims(case), *case.claims), case.classes)
        for profile in (CORRECT, KUBERNETES_1_36):
            one = Situation.of(cluster, profile, Features.named(case.features))
            try:
                if one.allocator.allocate(case.node, case.claims) is None:
                    continue
            except (AllocationError, NodeAllocationError):
                continue
            fitting += 1
            refusal = Explainer(one.allocator, {}).explain(case.node, case.claims)
            assert refusal.obstacles == (), (seed, profile.name)
    assert fitting > 100
