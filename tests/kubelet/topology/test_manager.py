from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dray.api.codec.json_codec import view
from dray.api.core.container import Container
from dray.api.core.pod import Pod
from dray.errors import Error, InvalidError, InvariantError, UnavailableError
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.rejection import Rejection
from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.manager import TopologyManager
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics

MISALIGNED = Rejection("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
ANYWHERE = Hint(None, False)


class Pool:
    """A provider with one resource, of which each NUMA node has some; every container takes one."""

    def __init__(self, manager: TopologyManager, free: Mapping[int, int]) -> None:
        self.free = dict(free)
        self.calls: list[tuple[str, Hint]] = []
        self.error: Error | InvariantError | None = None
        self._manager = manager
        manager.add_provider(self)

    def topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        return {"resource": [Hint(1 << node, True) for node, count in self.free.items() if count]}

    def pod_topology_hints(self, pod: Pod) -> ResourceHints:
        wanted = len(pod.spec.containers)
        return {"resource": [Hint(1 << node, True) for node, count in self.free.items() if count >= wanted]}

    async def allocate(self, pod: Pod, container: Container) -> None:
        hint = self._manager.affinity(pod.metadata.uid, container.name)
        self.calls.append((container.name, hint))
        if self.error is not None and container.name == "second":
            raise self.error
        if hint.nodes is not None:
            self.free[hint.nodes.bit_length() - 1] -= 1


class Machine:
    def __init__(self, policy: str, scope: str = "container") -> None:
        self.metrics = Metrics()
        self.clock = FakeClock()
        nodes = NumaNodes((0, 1))
        self.manager = TopologyManager(
            TopologyConfig(policy, scope), nodes, self.clock, KubeletMetrics(self.metrics).topology
        )

    def sample(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


def pod_with(*names: str, init: tuple[str, ...] = ()) -> Pod:
    spec: dict[str, Any] = {
        "containers": [{"name": name} for name in names],
        "initContainers": [{"name": name} for name in init],
    }
    return view({"metadata": {"name": "pod", "uid": "uid"}, "spec": spec}, Pod)


async def test_policy_none_only_allocates() -> None:
    machine = Machine("none", "no scope is looked at")
    pool = Pool(machine.manager, {0: 0})
    assert await machine.manager.admit(pod_with("first", "second", init=("zeroth",))) is None
    assert pool.calls == [("zeroth", ANYWHERE), ("first", ANYWHERE), ("second", ANYWHERE)]


async def test_each_container_sees_what_the_ones_before_it_were_given() -> None:
    machine = Machine("single-numa-node")
    pool = Pool(machine.manager, {0: 2, 1: 1})
    assert await machine.manager.admit(pod_with("first", "second", init=("zeroth",))) is None
    node = [(name, hint.nodes) for name, hint in pool.calls]
    assert node == [("zeroth", 1), ("first", 1), ("second", 2)]
    assert machine.manager.affinity("uid", "zeroth") == Hint(1, True)
    assert machine.manager.affinity("uid", "second") == Hint(2, True)


async def test_a_pod_in_one_place_or_not_at_all() -> None:
    machine = Machine("restricted", "pod")
    pool = Pool(machine.manager, {0: 1, 1: 2})
    assert await machine.manager.admit(pod_with("first", "second")) is None
    assert [hint for _, hint in pool.calls] == [Hint(2, True), Hint(2, True)]
    assert await machine.manager.admit(pod_with("first", "second")) == MISALIGNED
    assert len(pool.calls) == 2


async def test_a_container_that_does_not_fit_ends_the_admission() -> None:
    machine = Machine("restricted")
    pool = Pool(machine.manager, {0: 1})
    assert await machine.manager.admit(pod_with("first", "second")) == MISALIGNED
    assert [name for name, _ in pool.calls] == ["first"]
    assert machine.manager.affinity("uid", "first") == ANYWHERE, "a rejected pod leaves a hint"


async def test_best_effort_takes_what_does_not_fit() -> None:
    machine = Machine("best-effort")
    pool = Pool(machine.manager, {0: 0, 1: 0})
    assert await machine.manager.admit(pod_with("first")) is None
    assert pool.calls == [("first", Hint(3, False))]


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_without_providers_every_pod_is_taken(policy: str, scope: str) -> None:
    assert await Machine(policy, scope).manager.admit(pod_with("first")) is None


@pytest.mark.parametrize("policy", ["none", "restricted"])
@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_a_provider_that_fails(policy: str, scope: str) -> None:
    machine = Machine(policy, scope)
    first, after = Pool(machine.manager, {0: 9}), Pool(machine.manager, {0: 9})
    first.error = UnavailableError("unknown Device Plugin a.b/c")
    rejection = await machine.manager.admit(pod_with("first", "second", "third"))
    assert rejection == Rejection(
        "UnexpectedAdmissionError",
        "Allocate failed due to unknown Device Plugin a.b/c, which is unexpected",
    )
    assert [name for name, _ in first.calls] == ["first", "second"]
    assert [name for name, _ in after.calls] == ["first"]
    assert machine.manager.affinity("uid", "first") == ANYWHERE


async def test_our_own_bug_is_nobodys_rejection() -> None:
    machine = Machine("restricted")
    Pool(machine.manager, {0: 9}).error = InvariantError("a bug")
    with pytest.raises(InvariantError):
        await machine.manager.admit(pod_with("first", "second"))


async def test_hints_end_with_their_container_or_pod() -> None:
    machine = Machine("restricted")
    Pool(machine.manager, {0: 9})
    await machine.manager.admit(pod_with("first", "second"))
    machine.manager.add_container("uid", "first", "id")
    machine.manager.remove_container("id")
    assert machine.manager.affinity("uid", "first") == ANYWHERE
    assert machine.manager.affinity("uid", "second") == Hint(1, True)
    machine.manager.forget_pod("uid")
    assert machine.manager.affinity("uid", "second") == ANYWHERE


def test_a_wrong_configuration() -> None:
    with pytest.raises(InvalidError, match='unknown policy: "most"'):
        Machine("most")


REQUESTS = "kubelet_topology_manager_admission_requests_total"
ERRORS = "kubelet_topology_manager_admission_errors_total"
DURATIONS = "kubelet_topology_manager_admission_duration_ms_count"


@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_what_is_counted(scope: str) -> None:
    machine = Machine("single-numa-node", scope)
    aligned, failed = (
        f'kubelet_container_aligned_compute_resources_{name}{{scope="{scope}",boundary="numa_node"}}'
        for name in ("count", "failure_count")
    )
    assert [machine.sample(name) for name in (REQUESTS, ERRORS, DURATIONS, aligned, failed)] == [0] * 5
    Pool(machine.manager, {0: 2})
    assert await machine.manager.admit(pod_with("first", "second")) is None
    assert await machine.manager.admit(pod_with("first")) == MISALIGNED
    granted = 2 if scope == "container" else 1
    assert [machine.sample(name) for name in (REQUESTS, ERRORS, DURATIONS)] == [2, 1, 2]
    assert [machine.sample(name) for name in (aligned, failed)] == [granted, 1]


async def test_no_alignment_is_promised_without_the_policy_for_it() -> None:
    machine = Machine("restricted")
    Pool(machine.manager, {0: 1})
    await machine.manager.admit(pod_with("first"))
    await machine.manager.admit(pod_with("first"))
    page = machine.metrics.render().decode()
    for name in ("count", "failure_count"):
        for scope in ("container", "pod"):
            line = f'kubelet_container_aligned_compute_resources_{name}{{scope="{scope}",boundary="numa_node"}} 0'
            assert line in page.splitlines()


async def test_errors_of_policy_none_are_not_counted() -> None:
    machine = Machine("none")
    Pool(machine.manager, {}).error = UnavailableError("gone")
    assert await machine.manager.admit(pod_with("second")) is not None
    assert [machine.sample(name) for name in (REQUESTS, ERRORS)] == [1, 0]


async def test_how_long_an_admission_took() -> None:
    machine = Machine("none")

    class Slow(Pool):
        async def allocate(self, pod: Pod, container: Container) -> None:
            await machine.clock.advance(0.003)

    Slow(machine.manager, {})
    await machine.manager.admit(pod_with("first"))
    page = machine.metrics.render().decode()
    assert 'kubelet_topology_manager_admission_duration_ms_bucket{le="1.6"} 0.0' in page
    assert 'kubelet_topology_manager_admission_duration_ms_bucket{le="3.2"} 1.0' in page
    assert machine.sample("kubelet_topology_manager_admission_duration_ms_sum") == pytest.approx(3)


QOS: dict[str, dict[str, Any]] = {
    "Guaranteed": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
    "Burstable": {"requests": {"cpu": "1"}},
    "BestEffort": {},
}


@pytest.mark.parametrize("qos", sorted(QOS))
@pytest.mark.parametrize(
    ("policy", "fits", "crosses", "nothing"),
    [
        ("none", True, True, True),
        ("best-effort", True, True, True),
        ("restricted", True, False, False),
        ("single-numa-node", True, False, False),
    ],
)
async def test_whom_a_policy_takes_whatever_its_class(
    qos: str, policy: str, fits: bool, crosses: bool, nothing: bool
) -> None:
    """A kubelet looks at hints alone: a pod's class matters to processors and memory, which say nothing then."""

    class Fixed(Pool):
        hints: ResourceHints

        def topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
            return self.hints

    spec = {"containers": [{"name": "first", "resources": QOS[qos]}]}
    pod = view({"metadata": {"name": "pod", "uid": "uid"}, "spec": spec}, Pod)
    cases: list[tuple[bool, ResourceHints]] = [
        (fits, {"resource": [Hint(0b01, True), Hint(0b11, False)]}),
        (crosses, {"resource": [Hint(0b11, False)]}),
        (nothing, {"resource": []}),
        (True, {"resource": None}),
        (True, {}),
    ]
    for is_taken, hints in cases:
        machine = Machine(policy)
        Fixed(machine.manager, {0: 1, 1: 1}).hints = hints
        assert await machine.manager.admit(pod) == (None if is_taken else MISALIGNED)
