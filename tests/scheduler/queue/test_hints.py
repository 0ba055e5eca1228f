"""Which happening helps which pod. The oracle in e2e compares random cases; here are the plain ones and our own rules."""

from __future__ import annotations

import pytest

from dray.api.core import Pod
from dray.errors import InvalidError
from dray.scheduler.queue.happenings import TIME_TO_TRY, Action, Happening, node_happening, pod_happening
from dray.scheduler.queue.hints import Interest, fit_hints, helped, is_for_all, listeners
from tests.scheduler.objects import make_node, make_pod, with_spec

SPREAD = "PodTopologySpread"
ALL = fit_hints()
HINTS = {check: interests for check, interests in ALL.items() if check != SPREAD}
"""Spreading has a test of its own: it minds almost everything."""


def helps(pod: Pod, happening: Happening | None) -> set[str]:
    assert happening is not None
    return set(helped(HINTS, HINTS, pod, happening))


def test_a_new_node_helps_all_checks_that_it_meets() -> None:
    pod = make_pod(requests={"cpu": "1"}, nodeSelector={"x": "y"})
    good = make_node(cpu="1", labels={"x": "y"})
    all_of_nodes = set(HINTS) - {"SchedulingGates"}
    assert helps(pod, node_happening(None, good)) == all_of_nodes
    assert helps(pod, node_happening(None, make_node(labels={"x": "y"}))) == all_of_nodes - {
        "NodeResourcesFit"
    }
    assert helps(pod, node_happening(None, make_node(cpu="1"))) == all_of_nodes - {"NodeAffinity"}
    closed = with_spec(good, unschedulable=True, taints=[{"key": "a", "effect": "NoSchedule"}])
    assert helps(pod, node_happening(None, closed)) == all_of_nodes - {"NodeUnschedulable", "TaintToleration"}


def test_a_node_that_grows() -> None:
    pod = make_pod(requests={"cpu": "1"})
    assert helps(pod, node_happening(make_node(cpu="1"), make_node(cpu="2"))) == {"NodeResourcesFit"}
    assert helps(pod, node_happening(make_node(cpu="2"), make_node(cpu="1"))) == set()
    assert helps(pod, node_happening(make_node(cpu="1"), make_node(cpu="1", memory="1"))) == set()
    assert helps(pod, node_happening(make_node(cpu="1", pods="1"), make_node(cpu="1", pods="2"))) == {
        "NodeResourcesFit"
    }


def test_a_node_whose_devices_serve_the_resource() -> None:
    pod = make_pod(requests={"example.com/gpu": "1"})
    happening = node_happening(make_node(cpu="1"), make_node(cpu="2"))
    assert happening is not None
    assert set(helped(HINTS, HINTS, pod, happening)) == set()
    served = fit_hints(served=lambda: frozenset({"example.com/gpu"}))
    assert set(helped(served, served, pod, happening)) == {"NodeResourcesFit"}


def test_pods_that_go() -> None:
    port = [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]
    pod = make_pod("new", containers=port)
    assert helps(pod, pod_happening(make_pod("p", node="a"), None)) == {"NodeResourcesFit"}
    assert helps(pod, pod_happening(make_pod("p", node="a", containers=port), None)) == {
        "NodeResourcesFit",
        "NodePorts",
    }
    assert helps(pod, pod_happening(make_pod("p"), None)) == set()


def test_company() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = make_pod(
        "new", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )
    friend, other = make_pod("p", node="a", labels={"app": "db"}), make_pod("p", node="a")
    assert helps(near, pod_happening(None, friend)) == {"InterPodAffinity"}
    assert helps(near, pod_happening(make_pod("p", labels={"app": "db"}), friend)) == {"InterPodAffinity"}
    assert helps(near, pod_happening(None, other)) == set()
    assert helps(near, pod_happening(other, friend)) == {"InterPodAffinity"}
    far = make_pod(
        "new", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )
    assert helps(far, pod_happening(friend, None)) == {"NodeResourcesFit", "InterPodAffinity"}
    assert helps(far, pod_happening(None, friend)) == set()
    keeper = make_pod(
        "p",
        node="a",
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    assert "InterPodAffinity" in helps(make_pod("new", labels={"app": "db"}), pod_happening(keeper, None))


def test_spreading() -> None:
    def helps_spreading(pod: Pod, happening: Happening | None) -> bool:
        assert happening is not None
        return bool(list(helped(ALL, [SPREAD], pod, happening)))

    assert helps_spreading(make_pod("new"), node_happening(None, make_node()))
    assert helps_spreading(make_pod("new"), node_happening(make_node(), None))
    assert not helps_spreading(make_pod("new"), node_happening(make_node(cpu="1"), make_node(cpu="2")))
    assert helps_spreading(make_pod("new"), pod_happening(make_pod("p", node="a"), None))
    assert not helps_spreading(
        make_pod("new"), pod_happening(make_pod("p", node="a", namespace="other"), None)
    )
    assert not helps_spreading(make_pod("new"), pod_happening(make_pod("p"), None))
    assert helps_spreading(
        make_pod("new"), pod_happening(make_pod("new"), make_pod("new", labels={"a": "b"}))
    )


def test_own_changes() -> None:
    gate = [{"name": "x"}]
    assert helps(make_pod("new"), pod_happening(make_pod("new", schedulingGates=gate), make_pod("new"))) == {
        "SchedulingGates"
    }
    assert helps(make_pod("new"), pod_happening(make_pod("p", schedulingGates=gate), make_pod("p"))) == set()
    key = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    changed = pod_happening(make_pod("new"), make_pod("new", tolerations=key))
    assert helps(make_pod("new"), changed) == {"TaintToleration", "NodeUnschedulable"}


def test_who_listens() -> None:
    happening = pod_happening(make_pod("p", node="a"), None)
    assert happening is not None
    assert set(listeners(HINTS, happening)) == {"NodePorts", "NodeResourcesFit", "InterPodAffinity"}
    assert not list(listeners(HINTS, Happening("ResourceClaim", Action.OTHER)))
    assert is_for_all(TIME_TO_TRY) and not is_for_all(happening)


def test_a_hint_that_cannot_tell_wakes() -> None:
    def torn(pod: Pod, happening: Happening) -> bool:
        raise InvalidError("cannot be read")

    interest = Interest("Node", Action.ADD, torn)
    assert interest.helps(make_pod(), Happening("Node", Action.ADD))
    assert not interest.helps(make_pod(), Happening("Node", Action.DELETE))
    broken = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Odd"}]}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": broken}}
    assert "NodeAffinity" in helps(make_pod(affinity=required), node_happening(None, make_node()))


@pytest.mark.parametrize("check", sorted(ALL))
def test_every_check_of_nodes_hears_of_new_ones(check: str) -> None:
    """Else a pod that it refused in an empty cluster would wait for minutes."""
    concerns = any(one.concerns(Happening("Node", Action.ADD)) for one in ALL[check])
    assert concerns is (check != "SchedulingGates")
