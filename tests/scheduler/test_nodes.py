"""The nodes are kept up to date change by change, and are what counting anew would give."""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from dray.allocation.budget import UNLIMITED
from dray.errors import InvariantError
from dray.scheduler.nodes import NodeInfo, Nodes
from dray.scheduler.requests import ScoredUse
from tests.scheduler.objects import make_node, make_pod


def get(nodes: Nodes, name: str) -> NodeInfo:
    info = nodes.get(name)
    assert info is not None
    return info


def test_pods_take_from_their_node_and_give_back() -> None:
    nodes = Nodes()
    nodes.put_node(make_node("a", cpu="4", memory="8Gi"))
    nodes.put_pod(make_pod("p", node="a", requests={"cpu": "1500m", "memory": "1Gi"}))
    nodes.put_pod(make_pod("q", node="a", requests={"cpu": "1"}))
    info = get(nodes, "a")
    assert info.free("cpu") == 1500 and info.free("memory") == 7 << 30 and len(info.pods) == 2
    assert info.scored == ScoredUse(2500, (1 << 30) + (200 << 20))
    nodes.remove_pod("p")
    nodes.remove_pod("p")
    assert info.free("cpu") == 3000 and info.free("memory") == 8 << 30
    assert nodes.pod("p") is None and nodes.pod("q") is not None


def test_a_pod_that_ends_moves_or_loses_its_node_is_counted_once() -> None:
    nodes = Nodes()
    for name in ("a", "b"):
        nodes.put_node(make_node(name, cpu="4"))
    nodes.put_pod(make_pod("p", node="a", requests={"cpu": "1"}))
    nodes.put_pod(make_pod("p", node="b", requests={"cpu": "2"}))
    assert (get(nodes, "a").free("cpu"), get(nodes, "b").free("cpu")) == (4000, 2000)
    nodes.put_pod(make_pod("p", node="b", requests={"cpu": "2"}, status={"phase": "Succeeded"}))
    assert get(nodes, "b").free("cpu") == 4000 and not get(nodes, "b").pods


def test_pods_come_before_their_node_and_outlive_it() -> None:
    nodes = Nodes()
    nodes.put_pod(make_pod("p", node="late", requests={"cpu": "1"}))
    assert len(nodes) == 0 and nodes.get("late") is None and not nodes.order
    nodes.put_node(make_node("late", cpu="4"))
    assert get(nodes, "late").free("cpu") == 3000
    nodes.remove_node("late")
    nodes.remove_node("late")
    assert nodes.get("late") is None
    nodes.put_node(make_node("late", cpu="4"))
    assert get(nodes, "late").free("cpu") == 3000
    nodes.remove_node("late")
    nodes.remove_pod("p")
    nodes.put_node(make_node("late", cpu="4"))
    assert get(nodes, "late").free("cpu") == 4000


def test_a_node_that_changes_keeps_its_pods() -> None:
    nodes = Nodes()
    nodes.put_node(make_node("a", cpu="4"))
    nodes.put_pod(make_pod("p", node="a", requests={"cpu": "3"}))
    before, order = get(nodes, "a").generation, nodes.order
    nodes.put_node(make_node("a", cpu="2"))
    assert get(nodes, "a").free("cpu") == -1000
    assert get(nodes, "a").generation > before and nodes.generation > before
    assert nodes.order is order


def test_zones_take_turns() -> None:
    nodes = Nodes()
    for index, zone in enumerate("xxxyyz"):
        nodes.put_node(make_node(f"n{index}", labels={"topology.kubernetes.io/zone": zone}))
    assert [info.name for info in nodes.order] == ["n0", "n3", "n5", "n1", "n4", "n2"]
    nodes.put_node(make_node("n0", labels={"topology.kubernetes.io/zone": "z"}))
    assert [info.name for info in nodes.order][:3] == ["n0", "n1", "n3"]


def test_nodes_with_pods_that_want_to_be_alone_are_known() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = Nodes()
    nodes.put_pod(make_pod("p", node="a", affinity=alone))
    closed = partial(nodes.existing_terms.closed, make_pod("q"), {}, UNLIMITED)
    assert closed() == set()
    nodes.put_node(make_node("a", labels={"zone": "x"}))
    assert closed() == {("zone", "x")}
    nodes.put_node(make_node("a", labels={"zone": "y"}))
    assert closed() == {("zone", "y")}
    nodes.remove_pod("p")
    assert closed() == set() and not nodes.existing_terms


def test_a_pod_without_uid_is_our_bug() -> None:
    with pytest.raises(InvariantError, match="has no uid"):
        Nodes().put_pod(make_pod("", node="a"))


def test_any_order_of_changes_gives_what_counting_anew_gives() -> None:
    chance = random.Random(5)
    nodes, placed, alive = Nodes(), dict[str, tuple[str, int]](), set[str]()
    for _ in range(3000):
        name, uid = f"n{chance.randrange(6)}", f"p{chance.randrange(30)}"
        match chance.randrange(6):
            case 0:
                nodes.put_node(make_node(name, cpu="64"))
                alive.add(name)
            case 1:
                nodes.remove_node(name)
                alive.discard(name)
            case 2:
                nodes.remove_pod(uid)
                placed.pop(uid, None)
            case _:
                cpu = chance.randrange(4)
                nodes.put_pod(make_pod(uid, node=name, requests={"cpu": str(cpu)}))
                placed[uid] = (name, cpu)
        used = Counter[str]()
        for where, cpu in placed.values():
            used[where] += 1000 * cpu
        assert {info.name for info in nodes} == alive
        for info in nodes:
            assert info.requested.get("cpu", 0) == used[info.name]
            assert set(info.pods) == {uid for uid, (where, _) in placed.items() if where == info.name}


def test_a_pod_costs_the_same_among_few_and_many_nodes() -> None:
    """In instructions and in memory: they would be 50 times as much if nodes were gone through or copied."""

    def cost(count: int) -> tuple[int, int]:
        nodes = Nodes()
        for index in range(count):
            nodes.put_node(make_node(f"n{index}", cpu="64"))
        assert len(nodes.order) == count

        def put() -> None:
            """They come, stay as they are, and change."""
            for cpu in "112":
                for index in range(50):
                    nodes.put_pod(make_pod(f"p{index}", node=f"n{index}", requests={"cpu": cpu}))
                    assert len(nodes.order) == count

        return instructions(put), most_memory(put)

    many, few = cost(5000), cost(100)
    print(many, few)
    assert many[0] < 2 * few[0] and many[1] < 2 * few[1]


def instructions(work: Callable[[], None]) -> int:
    """How many of Python's own it takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def most_memory(work: Callable[[], None]) -> int:
    """The bytes that it has at once, above what was there before."""
    tracemalloc.start()
    try:
        work()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
