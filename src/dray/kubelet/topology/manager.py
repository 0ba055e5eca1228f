"""The topology manager: asks all providers where a pod's resources can sit, decides, and lets them allocate."""

from __future__ import annotations

from typing import Protocol

from dray.api.core.container import Container
from dray.api.core.pod import Pod
from dray.errors import Error
from dray.kubelet.metrics import TopologyMetrics
from dray.kubelet.rejection import Rejection, misaligned, unexpected
from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from dray.kubelet.topology.policies import NONE, POD_SCOPE, Decision, Policy, policy_of
from dray.kubelet.topology.store import HintStore
from dray.runtime.clock import Clock

_BOUNDARY = "numa_node"


class HintProvider(Protocol):
    """Who hands out a resource that sits somewhere: devices, processors, memory."""

    def topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Where this container's resources can sit, with what is free now."""
        ...

    def pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """The same for all containers of the pod together."""
        ...

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Called once the container's hint is decided (`TopologyManager.affinity`); again after a restart.

        An Error is final for the pod; its text reaches the pod's status.
        """
        ...


class TopologyManager:
    """Hints are true only until somebody else allocates: of pods that want the same resource, the caller admits one at a time."""

    def __init__(
        self, config: TopologyConfig, nodes: NumaNodes, clock: Clock, metrics: TopologyMetrics
    ) -> None:
        """InvalidError for a configuration that a kubelet does not start with."""
        self._policy = policy_of(config, nodes)
        self._is_pod_scope = config.scope == POD_SCOPE
        self._clock = clock
        self._metrics = metrics
        self._providers: list[HintProvider] = []
        self._store = HintStore()

    @property
    def policy(self) -> Policy:
        """What is in force."""
        return self._policy

    def add_provider(self, provider: HintProvider) -> None:
        """At start; providers allocate in the order in which they were added."""
        self._providers.append(provider)

    def affinity(self, pod_uid: str, container: str) -> Hint:
        """What was decided for a container; no preference where nothing was, or it is over."""
        return self._store.hint(pod_uid, container)

    def add_container(self, pod_uid: str, container: str, container_id: str) -> None:
        """A container was created; its hint is kept at least until this id is removed."""
        self._store.add_container(pod_uid, container, container_id)

    def remove_container(self, container_id: str) -> None:
        """A container was removed; one that is not known is fine."""
        self._store.remove_container(container_id)

    def forget_pod(self, pod_uid: str) -> None:
        """The pod is over."""
        self._store.forget_pod(pod_uid)

    async def admit(self, pod: Pod) -> Rejection | None:
        """None: all its containers have what they asked for. Asked again for every pod after a restart.

        A rejected pod leaves no hint behind; what its first containers were given is with the providers until they collect it.
        """
        self._metrics.requests.inc()
        started = self._clock.monotonic()
        if self._policy.name == NONE:
            rejection = await self._allocate_all(pod)
        else:
            rejection = await (self._admit_pod(pod) if self._is_pod_scope else self._admit_containers(pod))
            if rejection is not None:
                self._metrics.errors.inc()
        if rejection is not None:
            self._store.forget_pod(pod.metadata.uid)
        self._metrics.milliseconds.observe((self._clock.monotonic() - started) * 1000)
        return rejection

    async def _allocate_all(self, pod: Pod) -> Rejection | None:
        for container in containers_of(pod):
            rejection = await self._allocate(pod, container)
            if rejection is not None:
                return rejection
        return None

    async def _admit_containers(self, pod: Pod) -> Rejection | None:
        """Later containers see what earlier ones were given."""
        for container in containers_of(pod):
            hints = [provider.topology_hints(pod, container) for provider in self._providers]
            decision = self._decide(hints, "container")
            if not decision.is_admitted:
                return misaligned()
            self._store.put(pod.metadata.uid, container.name, decision.hint)
            rejection = await self._allocate(pod, container)
            if rejection is not None:
                return rejection
            self._count_aligned("container")
        return None

    async def _admit_pod(self, pod: Pod) -> Rejection | None:
        """One decision for all containers."""
        hints = [provider.pod_topology_hints(pod) for provider in self._providers]
        decision = self._decide(hints, "pod")
        if not decision.is_admitted:
            return misaligned()
        for container in containers_of(pod):
            self._store.put(pod.metadata.uid, container.name, decision.hint)
            rejection = await self._allocate(pod, container)
            if rejection is not None:
                return rejection
        self._count_aligned("pod")
        return None

    def _decide(self, hints: list[ResourceHints], scope: str) -> Decision:
        decision = self._policy.decide(hints)
        if not decision.is_admitted and self._policy.is_alignment_guaranteed:
            self._metrics.misaligned.inc(scope, _BOUNDARY)
        return decision

    def _count_aligned(self, scope: str) -> None:
        if self._policy.is_alignment_guaranteed:
            self._metrics.aligned.inc(scope, _BOUNDARY)

    async def _allocate(self, pod: Pod, container: Container) -> Rejection | None:
        try:
            for provider in self._providers:
                await provider.allocate(pod, container)
        except Error as error:
            return unexpected(error)
        return None


def containers_of(pod: Pod) -> tuple[Container, ...]:
    """In the order in which they are given their resources: init containers first."""
    return (*pod.spec.init_containers, *pod.spec.containers)
