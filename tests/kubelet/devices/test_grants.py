from __future__ import annotations

from random import Random

from dray.kubelet.devices.grants import Grant, Grants, by_node
from dray.kubelet.devices.known import Device
from tests.kubelet.devices.small_node import OTHER, RESOURCE


def grant(pod: str, container: str, *ids: str, resource: str = RESOURCE) -> Grant:
    return Grant(pod, container, resource, {-1: ids})


def test_ids_by_node_and_back() -> None:
    listed = {
        "a": Device("a", nodes=(0, 1), has_topology=True),
        "b": Device("b"),
        "c": Device("c", nodes=(1,), has_topology=True),
        "d": Device("d", has_topology=True),
    }
    places = by_node(("c", "gone", "d", "b", "a"), listed)
    assert places == {-1: ("b", "d", "gone"), 0: ("a",), 1: ("a", "c")}
    made = Grant("pod", "c", RESOURCE, places)
    assert made.ids == {"a", "b", "c", "d", "gone"}
    assert [(one.id, one.nodes) for one in made.located()] == [
        ("a", (0, 1)),
        ("b", ()),
        ("c", (1,)),
        ("d", ()),
        ("gone", ()),
    ]


def test_nothing_inside_is_nothing() -> None:
    assert Grant("pod", "c", RESOURCE, None).ids == frozenset()
    assert Grant("pod", "c", RESOURCE, {0: None, 1: ("a",)}).ids == {"a"}


def test_who_holds_what() -> None:
    grants = Grants()
    grants.add(grant("p1", "init", "a", "b"))
    grants.add(grant("p1", "c", "a"))
    grants.add(grant("p2", "c", "a", resource=OTHER))
    assert grants.held(RESOURCE) == {"a": {"p1": 2}, "b": {"p1": 1}}
    assert grants.counts() == {RESOURCE: 2, OTHER: 1}
    grants.remove(grant("p1", "init"))
    assert grants.held(RESOURCE) == {"a": {"p1": 1}}
    grants.add(grant("p1", "c", "z"))
    assert grants.held(RESOURCE) == {"z": {"p1": 1}}
    assert grants.keep_only(["p2", "p9"]) == ("p1",)
    assert not grants.held(RESOURCE)
    assert grants.has_pod("p2")
    assert not grants.has_pod("p1")
    assert [one.pod_uid for one in grants] == ["p2"]


def test_order_is_that_of_granting() -> None:
    grants = Grants()
    for pod in ("z", "a", "m"):
        grants.add(grant(pod, "c", pod))
    assert [one.pod_uid for one in grants] == ["z", "a", "m"]
    assert [one.resource for one in grants.of_container("a", "c")] == [RESOURCE]
    assert grants.of_container("a", "d") == ()


def test_the_holders_are_always_the_union_of_the_grants() -> None:
    random = Random(3)
    grants = Grants()
    for _ in range(500):
        ids = random.sample("abcdefgh", random.randint(0, 3))
        one = grant(
            random.choice("pqr"), random.choice("xyz"), *ids, resource=random.choice((RESOURCE, OTHER))
        )
        if random.random() < 0.1:
            grants.keep_only(random.sample("pqr", 2))
        elif random.random() < 0.3 and grants.get(*one.key):
            grants.remove(one)
        else:
            grants.add(one)
        for resource in (RESOURCE, OTHER):
            union = {each for held in grants if held.resource == resource for each in held.ids}
            assert set(grants.held(resource)) == union
        assert {held.pod_uid for held in grants} == {pod for pod in "pqr" if grants.has_pod(pod)}
