"""Terms of pods that are there: found without a look at all of them, and limited in what they cost others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.faults import TimeLimitError
from dray.api.core import Pod
from dray.scheduler.fit.existing_terms import NAMESPACE_WEIGHT, POD_WEIGHT
from dray.scheduler.fit.terms import anti_affinity_terms
from dray.scheduler.nodes import Nodes
from tests.campaign import campaign
from tests.scheduler.objects import make_node, make_pod

Json = dict[str, Any]
Labels = dict[str, dict[str, str]]


def far(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def term(key: str, *expressions: Json, **more: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchExpressions": list(expressions)}, **more}


def has(key: str, *values: str, operator: str = "") -> Json:
    return {"key": key, "operator": operator or ("In" if values else "Exists"), "values": list(values)}


def random_term(chance: Random) -> Json:
    operators = [
        lambda: has(f"l{chance.randrange(3)}", *chance.sample(["a", "b", "c"], chance.randint(1, 2))),
        lambda: has(f"l{chance.randrange(3)}"),
        lambda: has(f"l{chance.randrange(3)}", operator="DoesNotExist"),
        lambda: has(f"l{chance.randrange(3)}", "a", operator="NotIn"),
        lambda: has(f"l{chance.randrange(3)}", *(f"v{n}" for n in range(20)), "a"),
    ]
    made = term(
        chance.choice(["zone", "host"]), *(chance.choice(operators)() for _ in range(chance.randrange(3)))
    )
    if chance.random() < 0.3:
        made["namespaces"] = chance.sample(["x", "y", "z"], chance.randint(1, 3))
    if chance.random() < 0.05:
        made["namespaces"] = ["x", *(f"n{number}" for number in range(20))]
    if chance.random() < 0.3:
        made["namespaceSelector"] = chance.choice([{}, {"matchLabels": {"team": "a"}}])
    if chance.random() < 0.1:
        del made["labelSelector"]
    return made


def closed(nodes: Nodes, pod: Pod, namespaces: Labels) -> set[tuple[str, str]]:
    """Every term compared with the pod."""
    return {
        (one.topology_key, info.node.metadata.labels[one.topology_key])
        for info in nodes
        for placed in info.pods.values()
        for one in anti_affinity_terms(placed.pod)
        if one.topology_key in info.node.metadata.labels and one.means(pod, namespaces)
    }


@pytest.mark.parametrize("seed", range(campaign(4, 200)))
def test_what_is_found_is_what_a_look_at_all_terms_finds(seed: int) -> None:
    chance, nodes = Random(seed), Nodes()
    namespaces = {"x": {"team": "a"}, "y": {}}
    for step in range(150):
        name = f"n{chance.randrange(5)}"
        match chance.randrange(8):
            case 0:
                nodes.put_node(make_node(name, labels={"host": name, "zone": f"z{chance.randrange(2)}"}))
            case 1 if step > 50:
                nodes.remove_node(name)
            case 2 | 3:
                nodes.remove_pod(f"p{chance.randrange(20)}")
            case _:
                terms = [random_term(chance) for _ in range(chance.randrange(4))]
                where: Json = {"node": name, "namespace": chance.choice("xyz")}
                nodes.put_pod(make_pod(f"p{chance.randrange(20)}", affinity=far(*terms), **where))
        labels = {f"l{n}": chance.choice("abd") for n in chance.sample(range(3), chance.randrange(4))}
        pod = make_pod("new", namespace=chance.choice("xyzw"), labels=labels)
        found = nodes.existing_terms.closed(pod, namespaces, UNLIMITED)
        assert found == closed(nodes, pod, namespaces)
        assert nodes.existing_terms.is_about(pod, namespaces, UNLIMITED) or not found
    for number in range(20):
        nodes.remove_pod(f"p{number}")
    left = nodes.existing_terms
    assert not (
        left._pods or left._where or left._found_at or left._foreign or +left._weights or left._coarse
    )


def on_one_node() -> Nodes:
    nodes = Nodes()
    nodes.put_node(make_node("n", labels={"host": "n", "zone": "z"}))
    return nodes


def test_terms_of_one_pod_beyond_the_limit_refuse_everybody() -> None:
    nodes, victim = on_one_node(), make_pod("v", namespace="other", labels={"a": ""})
    many = [term("host", has(f"k{number}")) for number in range(POD_WEIGHT)]
    nodes.put_pod(make_pod("few", node="n", affinity=far(*many[: POD_WEIGHT // 2])))
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == set()
    nodes.put_pod(make_pod("many", node="n", affinity=far(*many)))
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == {("host", "n")}
    nodes.put_node(make_node("n", labels={"host": "m"}))
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == {("host", "m")}
    nodes.remove_pod("many")
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == set()


def test_terms_of_one_namespace_about_others_beyond_the_limit_refuse_everybody() -> None:
    """However many pods they are on: the others compare themselves with so many of them at most."""
    nodes, victim = on_one_node(), make_pod("v", namespace="other", labels={"a": ""})

    def put(number: int) -> None:
        terms = [
            term("zone", has(f"k{number}-{place}", operator="Exists"), has("a"), namespaceSelector={})
            for place in range(32)
        ]
        nodes.put_pod(make_pod(f"p{number}", node="n", affinity=far(*terms)))

    fits = NAMESPACE_WEIGHT // (32 * 3)
    for number in range(fits):
        put(number)
        put(number)
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == set()
    put(fits)
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == {("zone", "z")}
    assert sum(one.weight for one in nodes.existing_terms._where) <= NAMESPACE_WEIGHT
    nodes.remove_pod(f"p{fits}")
    assert nodes.existing_terms.closed(victim, {}, UNLIMITED) == set()


def test_terms_about_own_pods_have_no_limit_together_and_cost_others_nothing() -> None:
    nodes = on_one_node()
    for number in range(100):
        terms = [term("zone", has(f"k{number}-{place}")) for place in range(32)]
        nodes.put_pod(make_pod(f"p{number}", node="n", affinity=far(*terms)))
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        return 0.0

    other = make_pod("v", namespace="other", labels={"a": "b"})
    assert nodes.existing_terms.closed(other, {}, Budget(1.0, now)) == set()
    assert looks == 1
    own = make_pod("v", labels={"k7-3": ""})
    assert nodes.existing_terms.closed(own, {}, UNLIMITED) == {("zone", "z")}


def test_what_is_compared_is_charged() -> None:
    nodes = on_one_node()
    terms = [term("zone", has(f"k{number}", operator="DoesNotExist")) for number in range(100)]
    for number in range(10):
        mine = [term("zone", has(f"k{number}-{place}", operator="DoesNotExist")) for place in range(100)]
        nodes.put_pod(make_pod(f"p{number}", node="n", affinity=far(*mine, *terms)))
    times = iter((0.0, *([1.0] * 100)))
    with pytest.raises(TimeLimitError):
        nodes.existing_terms.closed(make_pod("v"), {}, Budget(0.5, lambda: next(times)))
