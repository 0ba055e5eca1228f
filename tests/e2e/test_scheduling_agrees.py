"""Random clusters: our scheduler and kube-scheduler 1.36 with all its plugins find the same nodes for the same pods, in the
same words; and what ours gives a pod there is what kube-scheduler would have given it.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.campaign import campaign
from tests.oracle_scheduler.agreement import differences
from tests.oracle_scheduler.ours import World
from tests.oracle_scheduler.placing import chosen_at_random, chosen_by_cycle, place
from tests.oracle_scheduler.program import SchedulerOracle
from tests.oracle_scheduler.states import state

STATES = campaign(500, 5_000)
SEQUENCES = campaign(100, 2_000)
RULES = "DRADeviceTaintRules"
NOW = datetime.now(UTC)

Json = dict[str, Any]


@pytest.mark.parametrize("rules", ["false", "true"])
def test_feasible_nodes_and_reasons_agree(rules: str) -> None:
    """Without device taint rules, as 1.36 has it, for all states; and with them for some."""
    gates = f"{RULES}={rules}"
    seeds = range(STATES) if rules == "false" else range(STATES, STATES + STATES // 5)
    outcomes: Counter[str] = Counter()
    with SchedulerOracle(gates) as oracle:
        for seed in seeds:
            cluster = state(seed)
            answer = oracle.ask(cluster)
            assert not answer["panic"], f"seed {seed}: {answer['panic']}"
            world = World(cluster, NOW, gates)
            for raw, theirs in zip(cluster["asked"], answer["pods"], strict=True):
                ours = world.ask(raw)
                wrong = differences(theirs, ours)
                assert not wrong, (
                    f"seed {seed}, pod {raw['metadata']['name']}: {wrong}: {json.dumps(cluster)}"
                )
                steps = [ours.enqueue, ours.filtered, *(ours.nodes or {}).values()]
                outcomes.update(f"{one[0]} {one[1]}" for one in steps if one)
                outcomes["pods"] += 1
                outcomes["that fit"] += bool(ours.feasible)
    print(outcomes)
    assert outcomes["that fit"] > outcomes["pods"] / 8
    assert outcomes["DynamicResources UnschedulableAndUnresolvable"] > outcomes["pods"] / 5
    assert len(outcomes) >= 14


@pytest.mark.parametrize("chooser", ["any", "cycle"])
def test_what_a_pod_gets_is_what_kube_scheduler_would_give(chooser: str) -> None:
    """Pods one after the other, to any node that does or to the one that our scheduler likes best: kube-scheduler, asked
    before each, finds the same nodes and gives it the same devices there. So no pod is bound where it cannot be, and no
    device is given twice.
    """
    placed, devices, given = 0, 0, 0
    with SchedulerOracle() as oracle:
        for seed in range(1_000_000, 1_000_000 + SEQUENCES):
            cluster, dice = state(seed, has_storage=chooser == "any"), random.Random(seed)
            waiting = cluster.pop("asked")
            world = World(cluster, NOW)
            for raw in waiting:
                before = copy.deepcopy(cluster) | {"asked": [raw]}
                where = f"seed {seed}, pod {raw['metadata']['name']}"
                ours = world.ask(raw)
                if chooser == "any":
                    node, held = chosen_at_random(world, ours, dice)
                else:
                    node, held = chosen_by_cycle(world, ours)
                answer = oracle.ask(before | {"reserve": node})
                assert not answer["panic"], f"{where}: {answer['panic']}"
                wrong = differences(answer["pods"][0], ours)
                assert not wrong, f"{where}: {wrong}: {json.dumps(before)}"
                if not node:
                    continue
                assert answer["reserve"]["code"] == "Success", f"{where} on {node}: {answer['reserve']}"
                made = place(cluster, world, raw, node, held)
                _check_given(answer, made, f"{where} on {node}: {json.dumps(before)}")
                _check_exclusive(before, made, where)
                placed += 1
                given += len(made)
                devices += len(_devices(made))
    print(f"{placed} pods, {given} claims, {devices} devices")
    assert placed > SEQUENCES / 2
    assert devices > SEQUENCES / 5


def _check_given(answer: Json, made: Json, where: str) -> None:
    """The same devices; and the same allocation of each claim but for the ids of shares."""
    assert _devices(made) == (answer["devices"] or []), where
    for name, theirs in answer["reserved"].items():
        assert _plain(made[name]) == _plain(theirs), f"claim {name}: {where}"


def _results(allocation: Json) -> list[Json]:
    found: list[Json] = allocation.get("devices", {}).get("results") or []
    return found


def _device(result: Json) -> str:
    return f"{result['driver']}/{result['pool']}/{result['device']}"


def _devices(made: Json) -> list[str]:
    """All that are in use now and were not before; admin access uses nothing."""
    results = (one for allocation in made.values() for one in _results(allocation))
    return sorted(_device(one) for one in results if not one.get("adminAccess"))


def _plain(allocation: Json) -> Json:
    """Without the ids of shares, which are new ones each time."""
    found = copy.deepcopy(allocation)
    for one in _results(found):
        assert ("shareID" not in one) or one.pop("shareID")
    return found


def _check_exclusive(before: Json, made: Json, where: str) -> None:
    """A whole device goes to one claim, and no share has the id of another one."""
    old = [
        one
        for claim in before["claims"]
        for one in _results((claim.get("status") or {}).get("allocation") or {})
        if not one.get("adminAccess")
    ]
    new = [one for allocation in made.values() for one in _results(allocation) if not one.get("adminAccess")]
    whole = Counter(_device(one) for one in new if "shareID" not in one)
    held = {_device(one) for one in old if "shareID" not in one}
    assert not held & {_device(one) for one in new}, where
    assert all(count == 1 for count in whole.values()), where
    shares = Counter(one["shareID"] for one in (*old, *new) if "shareID" in one)
    assert all(shares[one["shareID"]] == 1 for one in new if "shareID" in one), where
