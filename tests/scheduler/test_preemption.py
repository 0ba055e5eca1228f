"""Who must go for whom."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.faults import TimeLimitError
from dray.allocation.profiles import CORRECT
from dray.api.codec import view
from dray.api.core import Pod
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import Cycle
from dray.scheduler.decision import Placed, Refused
from dray.scheduler.nodes import Nodes
from dray.scheduler.preemption import PodDisruptionBudget, Victims, choose_victims, may_preempt
from tests.campaign import seeds
from tests.scheduler.claims.objects import (
    NOW,
    allocated,
    claim,
    device_class,
    request,
    result,
    slice_of,
)
from tests.scheduler.objects import make_node, make_pod

SETTINGS = Settings.of_gates(CORRECT)


class Cluster:
    """Nodes with devices, and pods that hold them."""

    def __init__(self, **devices: int) -> None:
        self.cycle = Cycle(Nodes(), Tracker(SETTINGS), SETTINGS)
        self.cycle.tracker.catalogue.set_class(device_class())
        for name, count in devices.items():
            self.cycle.nodes.put_node(make_node(name, cpu="8", memory="16Gi"))
            if count:
                self.cycle.tracker.catalogue.set_slice(slice_of(name, *(f"d{n}" for n in range(count))))

    def hold(self, node: str, name: str, priority: int, *devices: int, **fields: Any) -> Pod:
        """A pod that runs, with a claim of its name."""
        entries = [{"name": "x", "resourceClaimName": name}] if devices else []
        pod = make_pod(name, node=node, priority=priority, resourceClaims=entries, **fields)
        if devices:
            results = [result(f"d{number}", pool=node) for number in devices]
            self.cycle.tracker.set_claim(allocated(*results, name=name, users=(pod,), where=node))
        self.cycle.nodes.put_pod(pod)
        return pod

    def ask(
        self,
        priority: int,
        count: int = 1,
        *budgets: PodDisruptionBudget,
        time: Budget = UNLIMITED,
        **fields: Any,
    ) -> Victims | None:
        self.cycle.tracker.set_claim(claim(request(count=count), name="new"))
        entries = [{"name": "x", "resourceClaimName": "new"}] if count else []
        pod = make_pod("new", priority=priority, resourceClaims=entries, **fields)
        refused = self.cycle.decide(pod, NOW)
        assert isinstance(refused, Refused)
        cycle = self.cycle
        return choose_victims(refused, cycle.fit_of(pod), cycle.nodes, cycle.tracker, budgets, time)


def names(victims: Victims | None) -> list[str]:
    return [] if victims is None else sorted(pod.metadata.name for pod in victims.pods)


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return view(
        {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


def test_the_one_who_holds_the_device_goes() -> None:
    cluster = Cluster(n=1)
    cluster.hold("n", "holder", 1, 0)
    cluster.hold("n", "bystander", 0)
    assert names(cluster.ask(5)) == ["holder"]


def test_nobody_goes_where_the_time_is_over() -> None:
    cluster = Cluster(a=2, b=2)
    for number in range(2):
        cluster.hold("a", f"a{number}", 1, number)
        cluster.hold("b", f"b{number}", 1, number)
    assert names(cluster.ask(5, 2))
    with pytest.raises(TimeLimitError):
        cluster.ask(5, 2, time=Budget(0.0, lambda: 0.0))


def test_a_node_on_which_the_search_is_stopped_is_left_out() -> None:
    """Whether the pod would fit there without them is not known: nobody goes for nothing."""
    cluster = Cluster(a=1, b=1)
    index = cluster.cycle.tracker.index
    index.options = replace(index.options, step_limit=0)
    cluster.hold("a", "holder-a", 1, 0)
    cluster.hold("b", "holder-b", 1, 0)
    assert cluster.ask(5) is None


def test_never_one_of_equal_or_higher_priority() -> None:
    cluster = Cluster(n=2)
    cluster.hold("n", "equal", 5, 0)
    cluster.hold("n", "higher", 9, 1)
    assert cluster.ask(5) is None


def test_who_must_not_preempt_does_not() -> None:
    assert not may_preempt(make_pod(preemptionPolicy="Never"))
    cluster = Cluster(n=1)
    cluster.hold("n", "holder", 1, 0)
    assert cluster.ask(5, preemptionPolicy="Never") is None


def test_as_few_as_possible_and_the_least_important() -> None:
    cluster = Cluster(n=3)
    for number, priority in enumerate((3, 1, 2)):
        cluster.hold("n", f"p{priority}", priority, number)
    assert names(cluster.ask(5)) == ["p1"]
    assert names(cluster.ask(5, 2)) == ["p1", "p2"]
    assert cluster.ask(5, 4) is None


def test_the_node_whose_victims_matter_least() -> None:
    cluster = Cluster(a=1, b=1, c=1)
    for node, priority in (("a", 4), ("b", 2), ("c", 3)):
        cluster.hold(node, f"on-{node}", priority, 0)
    found = cluster.ask(5)
    assert found is not None and found.node == "b"


def test_a_shared_claim_needs_all_its_users_gone() -> None:
    cluster = Cluster(n=1)
    first, second = cluster.hold("n", "first", 1), cluster.hold("n", "second", 9)
    cluster.cycle.tracker.set_claim(
        allocated(result("d0", pool="n"), name="shared", users=(first, second), where="n")
    )
    assert cluster.ask(5) is None
    assert names(cluster.ask(10)) == ["first", "second"]


def test_a_claim_without_users_is_nobodys_to_free() -> None:
    cluster = Cluster(n=1)
    cluster.hold("n", "bystander", 1)
    cluster.cycle.tracker.set_claim(allocated(result("d0", pool="n"), name="kept", where="n"))
    assert cluster.ask(5) is None


def test_what_an_earlier_victim_held_is_as_good_as_free() -> None:
    """Its claim still holds the device until the claim controller has seen that the pod is gone."""
    cluster = Cluster(n=2)
    gone = cluster.hold("n", "gone", 1, 0)
    cluster.hold("n", "other", 1, 1)
    cluster.cycle.nodes.remove_pod(gone.metadata.uid)
    assert cluster.ask(5) is None
    assert names(cluster.ask(5, 2)) == ["other"]


def test_resources_and_devices_together() -> None:
    cluster = Cluster(n=2)
    cluster.hold("n", "cpu", 1, requests={"cpu": "7"})
    cluster.hold("n", "device", 2, 0, 1)
    assert names(cluster.ask(5, requests={"cpu": "4"})) == ["cpu", "device"]
    assert names(cluster.ask(5)) == ["device"]


def test_plain_resources_alone() -> None:
    cluster = Cluster(n=0)
    cluster.hold("n", "cpu", 1, requests={"cpu": "7"})
    assert names(cluster.ask(5, 0, requests={"cpu": "4"})) == ["cpu"]


def test_what_no_eviction_changes() -> None:
    cluster = Cluster(n=1)
    cluster.hold("n", "holder", 1, 0)
    assert cluster.ask(5, nodeSelector={"no": "such"}) is None


def test_budgets_are_kept_where_possible() -> None:
    cluster = Cluster(a=1, b=1)
    cluster.hold("a", "kept", 1, 0, labels={"app": "x"})
    cluster.hold("b", "free", 2, 0)
    found = cluster.ask(5, 1, budget(0, app="x"))
    assert names(found) == ["free"] and found is not None and found.violations == 0
    assert names(cluster.ask(5, 1, budget(1, app="x"))) == ["kept"]
    only = Cluster(a=1)
    only.hold("a", "kept", 1, 0, labels={"app": "x"})
    found = only.ask(5, 1, budget(0, app="x"))
    assert names(found) == ["kept"] and found is not None and found.violations == 1


@pytest.mark.parametrize("seed", seeds(20, 500))
def test_once_the_victims_are_gone_the_pod_fits_and_none_went_in_vain(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(a=3, b=3)
    for node in ("a", "b"):
        for number in range(3):
            cpu = str(rng.choice((1, 2, 3)))
            cluster.hold(node, f"{node}{number}", rng.randrange(8), number, requests={"cpu": cpu})
    wanted, cpu = rng.choice((1, 2, 3)), str(rng.choice((1, 4, 6)))
    found = cluster.ask(5, wanted, requests={"cpu": cpu})
    if found is None:
        return
    assert all((pod.spec.priority or 0) < 5 for pod in found.pods)
    pod = make_pod("new", requests={"cpu": cpu}, resourceClaims=[{"name": "x", "resourceClaimName": "new"}])
    for left_out in (*found.pods, None):
        again = Cluster(a=3, b=3)
        for info in cluster.cycle.nodes:
            for one in info.pods.values():
                if one.pod not in found.pods or one.pod is left_out:
                    again.cycle.nodes.put_pod(one.pod)
                    kept = cluster.cycle.tracker.get("default", one.pod.metadata.name)
                    assert kept is not None
                    again.cycle.tracker.set_claim(kept)
        again.cycle.tracker.set_claim(claim(request(count=wanted), name="new"))
        decided = again.cycle.decide(pod, NOW)
        fits = isinstance(decided, Placed)
        assert fits is (left_out is None), f"{left_out and left_out.metadata.name}"
