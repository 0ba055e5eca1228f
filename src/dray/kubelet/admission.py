"""Whether this node takes a pod: devices where topology allows, then room for everything it asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from dray.api.core import Pod
from dray.api.quantity import Quantity
from dray.kubelet.devices.manager import DeviceManager
from dray.kubelet.node.resources import Used, is_extended, why_not
from dray.kubelet.rejection import Rejection
from dray.kubelet.topology.manager import TopologyManager
from dray.semantics.requests import pod_requests


class NodeAdmission:
    """In the kubelet's order: devices are asked for before the count, so a count never refuses what is held already."""

    def __init__(
        self,
        topology: TopologyManager,
        devices: DeviceManager,
        allocatable: Callable[[], Mapping[str, Quantity]],
        rejections: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._topology = topology
        self._devices = devices
        self._allocatable = allocatable
        self._rejections = rejections
        self._used = Used()

    async def admit(self, pod: Pod, others: Collection[Pod]) -> Rejection | None:
        """See `Admission`."""
        rejection = self._unserved(pod) or await self._topology.admit(pod)
        if rejection is None:
            rejection = why_not(
                pod,
                self._allocatable(),
                self._used.by(others),
                ignored=backed_by_claims(pod),
                held=self._devices.held(pod.metadata.uid),
            )
        if rejection is not None:
            self._topology.forget_pod(pod.metadata.uid)
            self._rejections(rejection.reason)
        return rejection

    def ended(self, pod: Pod) -> None:
        """See `Admission`."""
        self._topology.forget_pod(pod.metadata.uid)
        self._devices.forget_inactive()

    def _unserved(self, pod: Pod) -> Rejection | None:
        """For a pod that no scheduler placed: a resource that no plugin of this node has.

        For others a kubelet cannot tell it from a resource of the whole cluster, and lets it pass.
        """
        if pod.metadata.resource_version:
            return None
        allocatable = self._allocatable()
        missing = sorted(
            name
            for name, amount in pod_requests(pod).items()
            if amount and is_extended(name) and name not in allocatable
        )
        if not missing:
            return None
        return Rejection(
            f"OutOf{missing[0]}", f"no device plugin has registered {', '.join(missing)} with this node"
        )


def backed_by_claims(pod: Pod) -> frozenset[str]:
    """Extended resources that the scheduler serves through a claim."""
    status = pod.status.extended_resource_claim_status
    return frozenset(one.resource_name for one in status.request_mappings) if status else frozenset()
