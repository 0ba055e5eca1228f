from __future__ import annotations

import sys
import traceback
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from dray.allocation.budget import Budget
from dray.allocation.profiles import CORRECT
from dray.api.core import Pod
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import FEASIBLE, Cycle, CycleOptions, Score
from dray.scheduler.decision import Failed, Overrun, Placed, Refused
from dray.scheduler.fit.filters import Fit
from dray.scheduler.fit.rejection import NODE_AFFINITY, NODE_RESOURCES_FIT
from dray.scheduler.nodes import Nodes
from dray.scheduler.queue.device_hints import DYNAMIC_RESOURCES, PREEMPTION
from tests.allocation.test_budget import MOST_LINES, Lines
from tests.campaign import campaign, seeded
from tests.scheduler.claims import objects
from tests.scheduler.claims.objects import CLASS, DRIVER, NOW, claim, device_class, on_node, request, slice_of
from tests.scheduler.objects import make_node, make_pod, with_spec

SETTINGS = Settings.of_gates(CORRECT)


def a_cycle(nodes: int = 2, devices: int = 2, **options: Any) -> Cycle:
    """Nodes n0, n1, … with devices; options as of `CycleOptions`."""
    cycle = Cycle(Nodes(), Tracker(SETTINGS), SETTINGS, CycleOptions(**options))
    cycle.tracker.catalogue.set_class(device_class())
    for number in range(nodes):
        cycle.nodes.put_node(make_node(f"n{number}", cpu="8", memory="16Gi"))
        if devices:
            names = [f"d{device}" for device in range(devices)]
            cycle.tracker.catalogue.set_slice(slice_of(f"n{number}", *names))
    return cycle


def a_pod(name: str, cycle: Cycle | None = None, count: int = 1, **fields: Any) -> Pod:
    """With a cycle: one with a claim for so many devices."""
    if cycle is None:
        return make_pod(name, **fields)
    cycle.tracker.set_claim(claim(request(count=count), name=name))
    return make_pod(name, resourceClaims=[{"name": "x", "resourceClaimName": name}], **fields)


def placed(cycle: Cycle, pod: Pod) -> Placed:
    found = cycle.decide(pod, NOW)
    assert isinstance(found, Placed), found
    return found


def refused(cycle: Cycle, pod: Pod) -> Refused:
    found = cycle.decide(pod, NOW)
    assert isinstance(found, Refused), found
    return found


def test_without_nodes() -> None:
    found = refused(a_cycle(0), a_pod("p"))
    assert str(found.diagnosis) == "no nodes available to schedule pods"


def test_what_is_decided_counts_at_once() -> None:
    cycle = a_cycle(nodes=2, devices=1)
    where = {placed(cycle, a_pod(name, cycle)).node for name in ("p", "q")}
    assert where == {"n0", "n1"}
    found = refused(cycle, a_pod("r", cycle))
    assert str(found.diagnosis) == "0/2 nodes are available: 2 cannot allocate all claims."
    assert found.diagnosis.rejectors == {DYNAMIC_RESOURCES}
    assert sorted(node.metadata.name for node in found.short) == ["n0", "n1"]


def test_resources_count_too() -> None:
    cycle = a_cycle(nodes=1, devices=0)
    first = placed(cycle, a_pod("p", requests={"cpu": "6"}))
    assert refused(cycle, a_pod("q", requests={"cpu": "6"})).diagnosis.rejectors == {NODE_RESOURCES_FIT}
    cycle.forget(first)
    placed(cycle, a_pod("q", requests={"cpu": "6"}))


def test_forgetting_a_pod_that_is_elsewhere_by_now() -> None:
    cycle = a_cycle(nodes=2, devices=0)
    first = placed(cycle, a_pod("p", requests={"cpu": "6"}))
    other = "n1" if first.node == "n0" else "n0"
    cycle.nodes.put_pod(replace(first.pod, spec=replace(first.pod.spec, node_name=other)))
    cycle.forget(first)
    assert cycle.nodes.pod("p") is not None


def test_a_mixed_refusal_names_all_reasons() -> None:
    cycle = a_cycle(nodes=3, devices=1)
    cycle.nodes.put_node(make_node("n0", cpu="1"))
    cycle.nodes.put_node(with_spec(make_node("n1", cpu="8"), unschedulable=True))
    found = refused(cycle, a_pod("p", cycle, count=2, requests={"cpu": "4"}))
    assert str(found.diagnosis) == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims, 1 node(s) were unschedulable."
    )
    assert [node.metadata.name for node in found.short] == ["n2"]


def test_a_missing_class_is_against_all_nodes() -> None:
    cycle = a_cycle()
    cycle.tracker.catalogue.remove_class(CLASS)
    found = refused(cycle, a_pod("p", cycle))
    assert "device class my-class does not exist" in str(found.diagnosis)
    assert found.diagnosis.rejectors == {DYNAMIC_RESOURCES}


def test_a_selector_error_is_a_failure() -> None:
    cycle = a_cycle()
    bad = {"cel": {"expression": f'device.attributes["{DRIVER}"].nothing == 1'}}
    cycle.tracker.set_claim(claim(request(selectors=[bad]), name="p"))
    pod = make_pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "p"}])
    found = cycle.decide(pod, NOW)
    assert isinstance(found, Failed) and "nothing" in found.reason


def test_a_broken_preference_is_a_failure_where_there_is_a_choice() -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    pod = a_pod("p", affinity=affinity)
    for _ in range(2):
        found = a_cycle(nodes=2).decide(pod, NOW)
        assert isinstance(found, Failed) and "Odd" in found.reason
    assert placed(a_cycle(nodes=1), pod).node == "n0"


def test_only_named_nodes_are_looked_at() -> None:
    cycle = a_cycle(nodes=5, devices=1)
    terms = {
        "nodeSelectorTerms": [*on_node("n3")["nodeSelectorTerms"], *on_node("gone")["nodeSelectorTerms"]]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert placed(cycle, a_pod("p", cycle, affinity=affinity)).node == "n3"
    found = refused(cycle, a_pod("q", cycle, affinity=affinity))
    assert found.diagnosis.rejectors == {DYNAMIC_RESOURCES, NODE_AFFINITY}


def test_the_look_goes_round_and_stops_early() -> None:
    """So many nodes are asked as are enough, and the next pod's look begins where this one ended."""
    cycle = a_cycle(nodes=3 * FEASIBLE, devices=0)
    pods = [a_pod(f"p{number}") for number in range(4)]
    windows = [int(placed(cycle, pod).node[1:]) // FEASIBLE for pod in pods]
    assert windows == [0, 1, 2, 0]


def test_how_many_nodes_are_enough() -> None:
    assert [CycleOptions().limit(nodes) for nodes in (5, 100, 500, 5000)] == [5, 100, 100, 100]
    assert [CycleOptions(percent=-1).limit(nodes) for nodes in (5, 500, 5000)] == [5, 230, 500]
    assert CycleOptions(percent=100).limit(500) == 500


def test_the_seed_decides_between_equals() -> None:
    chosen = {seed: placed(a_cycle(nodes=50, seed=seed), a_pod("p")).node for seed in range(10)}
    assert len(set(chosen.values())) > 3
    assert chosen == {seed: placed(a_cycle(nodes=50, seed=seed), a_pod("p")).node for seed in range(10)}


def test_best_fit_takes_the_tightest_node_and_spread_the_emptiest() -> None:
    for score, expected in ((Score.BEST_FIT, "small"), (Score.SPREAD, "large")):
        cycle = a_cycle(nodes=0, score=score)
        for name, devices in (("large", 8), ("small", 2), ("middle", 4)):
            cycle.nodes.put_node(make_node(name, cpu="8", memory="16Gi"))
            names = [f"d{device}" for device in range(devices)]
            cycle.tracker.catalogue.set_slice(slice_of(name, *names))
        assert placed(cycle, a_pod("p", cycle)).node == expected


def test_a_wish_for_better_devices_counts() -> None:
    cycle = a_cycle(nodes=0)
    cycle.tracker.catalogue.set_class(device_class("good"))
    expression = f'device.attributes["{DRIVER}"].good'
    for name in ("n0", "n1", "n2"):
        cycle.nodes.put_node(make_node(name))
        good = {"attributes": {"good": {"bool": name == "n1"}}}
        cycle.tracker.catalogue.set_slice(slice_of(name, {"name": "d", **good}))
    wishes = (objects.exactly(selectors=[{"cel": {"expression": expression}}]), objects.exactly())
    cycle.tracker.set_claim(claim(objects.first(*wishes), name="p"))
    pod = make_pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "p"}])
    assert placed(cycle, pod).node == "n1"


def test_the_nominated_node_comes_first() -> None:
    cycle = a_cycle(nodes=20, devices=1)
    pod = a_pod("p", cycle, status={"nominatedNodeName": "n7"})
    assert placed(cycle, pod).node == "n7"
    again = a_pod("q", cycle, status={"nominatedNodeName": "n7"})
    assert placed(cycle, again).node != "n7"


def test_a_node_that_was_cleared_is_kept_for_the_pod() -> None:
    cycle = a_cycle(nodes=1, devices=1)
    high = a_pod("high", cycle, priority=5)
    cycle.keep("n0", high)
    found = refused(cycle, a_pod("low", cycle, priority=4))
    assert str(found.diagnosis).endswith("1 node(s) were cleared for a pod of higher priority.")
    assert found.diagnosis.rejectors == {PREEMPTION}
    cycle.release("high")
    placed(cycle, a_pod("low", cycle, priority=4))
    cycle.keep("n0", high)
    assert refused(cycle, high).diagnosis.rejectors == {DYNAMIC_RESOURCES}


def test_a_claim_of_no_use_is_to_be_given_back() -> None:
    cycle = a_cycle(nodes=1, devices=1)
    cycle.tracker.set_claim(objects.allocated(objects.result("d0", pool="gone"), name="p", where="gone"))
    found = refused(cycle, make_pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "p"}]))
    assert str(found.diagnosis).endswith("1 resourceclaim not available on the node.")
    assert found.post is not None and len(found.post.writes) == 1
    assert found.short == ()


def test_what_is_remembered_is_what_a_fresh_look_says() -> None:
    """Random pods of a few shapes come and go, nodes change; each decision agrees with checks made anew."""
    rng = seeded(5)
    cycle = a_cycle(nodes=6, devices=0)
    there: list[Placed] = []
    for number in range(campaign(300, 5000)):
        if rng.random() < 0.1:
            name, cpu = f"n{rng.randrange(7)}", str(rng.choice((2, 4, 8)))
            closed = rng.random() < 0.2
            cycle.nodes.put_node(with_spec(make_node(name, cpu=cpu, memory="16Gi"), unschedulable=closed))
        if there and rng.random() < 0.45:
            cycle.forget(there.pop(rng.randrange(len(there))))
        fields: dict[str, Any] = {"requests": {"cpu": str(rng.choice((1, 2, 3)))}}
        if rng.random() < 0.2:
            fields["tolerations"] = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
        if rng.random() < 0.1:
            term = {"topologyKey": "none", "labelSelector": {"matchLabels": {"a": "b"}}}
            anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            fields["affinity"] = {"podAntiAffinity": anti}
        pod = make_pod(f"p{number}", **fields)
        fit = Fit.of(pod, cycle.nodes)
        expected = {info.name: fit.refused(info) for info in cycle.nodes}
        found = cycle.decide(pod, NOW)
        if isinstance(found, Placed):
            assert expected[found.node] is None
            there.append(found)
        else:
            assert isinstance(found, Refused)
            assert found.diagnosis.rejected == expected


def test_a_refusal_is_said_again_until_something_changes() -> None:
    cycle = a_cycle(nodes=2, devices=1)
    first = refused(cycle, a_pod("p", cycle, count=2))
    second = refused(cycle, a_pod("q", cycle, count=2))
    cycle.tracker.set_claim(claim(request(count=2), name="r"))
    third = make_pod("r", resourceClaims=[{"name": "x", "resourceClaimName": "r"}])
    refusals = [refused(cycle, third) for _ in range(2)]
    assert refusals[0].diagnosis is refusals[1].diagnosis and refusals[1].pod is third
    assert {str(one.diagnosis) for one in (first, second, *refusals)} == {
        "0/2 nodes are available: 2 cannot allocate all claims."
    }
    cycle.nodes.put_node(make_node("n2"))
    cycle.tracker.catalogue.set_slice(slice_of("n2", "d0", "d1"))
    assert placed(cycle, third).node == "n2"


def test_served_resources_are_left_to_the_devices() -> None:
    """As soon as a class serves a resource, pods that ask for it may go to nodes without a plugin for it."""
    cycle = a_cycle(nodes=1, devices=1)
    pod = make_pod("p", requests={"example.com/gpu": "1"})
    assert refused(cycle, pod).diagnosis.rejectors == {NODE_RESOURCES_FIT}
    cycle.tracker.catalogue.set_class(device_class(resource="example.com/gpu"))
    found = placed(cycle, pod)
    assert found.reserved is not None and found.reserved.special is not None
    off = Cycle(cycle.nodes, cycle.tracker, changed(SETTINGS, extended_resource=False))
    assert refused(off, make_pod("q", requests={"example.com/gpu": "1"})).diagnosis.rejectors == {
        NODE_RESOURCES_FIT
    }


def test_who_runs_out_of_stack_has_overrun() -> None:
    """With ever more room: as soon as a decision is begun at all, it is an overrun, and then it is made."""
    cycle, pod = a_cycle(nodes=1, devices=1), make_pod("a")
    before, depth = sys.getrecursionlimit(), len(traceback.extract_stack())
    seen: list[type[object]] = []
    for room in range(3, 200):
        try:
            sys.setrecursionlimit(depth + room)
            seen.append(type(cycle.decide(pod, NOW)))
        except RecursionError:
            continue
        finally:
            sys.setrecursionlimit(before)
        if seen[-1] is not Overrun:
            break
    assert len(seen) > 1 and set(seen[:-1]) == {Overrun} and seen[-1] is Placed


def many_terms(kind: str, number: int) -> dict[str, Any]:
    never = [{"key": f"z{number}", "operator": "Exists"}]
    if kind == "nodeAffinity":
        asked = [
            {"matchExpressions": [{"key": f"z{place}", "operator": "Exists"}]} for place in range(number)
        ]
        return {
            "affinity": {
                kind: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": asked}}
            }
        }
    if kind == "preferred":
        preferred = [
            {"weight": 1, "preference": {"matchExpressions": [{"key": f"z{place}", "operator": "Exists"}]}}
            for place in range(number)
        ]
        return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    if kind == "spread":
        rules = [
            {
                "maxSkew": 1 + place,
                "topologyKey": "host",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": never},
            }
            for place in range(number)
        ]
        return {"topologySpreadConstraints": rules}
    terms = [
        {
            "topologyKey": "host",
            "namespaceSelector": {},
            "labelSelector": {
                "matchExpressions": [
                    {"key": "own", "operator": "Exists"},
                    *never,
                    {"key": f"y{place}", "operator": "Exists"},
                ]
            },
        }
        for place in range(number)
    ]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity", "nodeAffinity", "preferred", "spread"])
def test_the_clock_is_looked_at_where_no_devices_are_asked_for(kind: str) -> None:
    """Whatever a pod says of nodes and other pods, and however much: the work between two looks does not grow with it."""
    cycle = a_cycle(nodes=0, devices=0)
    for number in range(40):
        cycle.nodes.put_node(make_node(f"n{number}", labels={"host": f"n{number}"}, cpu="8"))
        for place in range(10):
            labels = {"own": f"{number}-{place}"}
            cycle.nodes.put_pod(make_pod(f"p{number}-{place}", node=f"n{number}", labels=labels))
    pod = make_pod("new", **many_terms(kind, 500))
    lines = Lines(400)
    assert isinstance(cycle.decide(pod, NOW, Budget(0.0, lambda: 0.0)), Overrun)
    lines.run(lambda: cycle.decide(pod, NOW, Budget(0.5, lines.now)))
    assert lines.most < MOST_LINES, lines.most
