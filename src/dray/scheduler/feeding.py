"""What informers see goes into the nodes, the tracker and the queue, change by change, in the loop that decides.

A change comes here before anybody decides with it, so what the parts know is one picture, however the watches run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from dray.allocation.cluster.workloads import has_ended
from dray.api.core import Namespace, Node, Pod
from dray.api.meta import Model
from dray.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.scheduling import PodGroup
from dray.client.informer import Informer
from dray.client.store import Added, Change, Modified
from dray.runtime.clock import Clock
from dray.scheduler.claims.extended import owner_of
from dray.scheduler.claims.tracking import ClaimChange
from dray.scheduler.cycle import Cycle
from dray.scheduler.decision import Placed
from dray.scheduler.queue.device_hints import (
    CLAIM,
    DEVICE_CLASS,
    POD_GROUP,
    SLICE,
    TAINT_RULE,
    frees,
    object_happening,
)
from dray.scheduler.queue.happenings import POD, Action, Happening, node_happening, pod_happening
from dray.scheduler.queue.queue import SchedulingQueue
from dray.semantics.claims import claim_names

BY_CLAIM: Final = "claim"
"""The index of pods by their claims, `NAMESPACE/NAME`."""
T = TypeVar("T", bound=Model)


def claims_of(pod: Pod) -> Iterator[str]:
    """For the index `BY_CLAIM`: the claims of a pod that waits."""
    if pod.spec.node_name:
        return
    namespace = pod.metadata.namespace
    for name in sorted(claim_names(pod)):
        yield f"{namespace}/{name}"


def both(change: Change[T]) -> tuple[T | None, T | None]:
    """The object before and after."""
    if isinstance(change, Added):
        return None, change.new.value
    return change.old.value, change.new.value if isinstance(change, Modified) else None


@dataclass(slots=True)
class Feed:
    """The handlers. `wake` is called where a pod may be tried now; `claim_changed` with each claim that is another one.

    `names` are the scheduler's: pods that name another one are only counted where they are.
    """

    names: frozenset[str]
    cycle: Cycle
    queue: SchedulingQueue
    pods: Informer[Pod]
    clock: Clock
    wake: Callable[[], None]
    claim_changed: Callable[[tuple[str, str]], None]

    def pod(self, change: Change[Pod]) -> None:
        """A pod that waits for us goes into the queue, one on a node is counted there."""
        old, new = both(change)
        known = new or old
        if known is None:
            return
        uid = known.metadata.uid
        if new is None:
            self.cycle.nodes.remove_pod(uid)
            self.queue.delete(uid)
        elif new.spec.node_name or has_ended(new):
            self.cycle.nodes.put_pod(new)
            self.queue.delete(uid)
        else:
            self._waiting(new)
            return
        self._tell(pod_happening(old, new))

    def _waiting(self, pod: Pod) -> None:
        """Not `put_pod`: a pod that is about to be bound is counted on its node while it looks as if it waited."""
        if pod.metadata.deletion_timestamp is not None:
            self.queue.delete(pod.metadata.uid)
        elif pod.spec.scheduler_name in self.names:
            self.queue.put(pod, self.clock.monotonic())
            self.wake()

    def node(self, change: Change[Node]) -> None:
        """A heartbeat is nothing to anybody."""
        old, new = both(change)
        if new is not None:
            self.cycle.nodes.put_node(new)
        elif old is not None:
            self.cycle.nodes.remove_node(old.metadata.name)
            self.cycle.tracker.catalogue.remove_node(old.metadata.name)
        self._tell(node_happening(old, new))

    def claim(self, change: Change[ResourceClaim]) -> None:
        """What our own writes have told the tracker before is no news."""
        old, new = both(change)
        tracker = self.cycle.tracker
        seen = tracker.set_claim(new) if new is not None else None
        if new is None and old is not None:
            seen = tracker.remove_claim(old)
        self.claim_changed(change.key)
        if seen is not None:
            self.claim_news(seen)

    def claim_news(self, seen: ClaimChange) -> None:
        """Tell the pods that it may help: any where devices became free, else those that use the claim."""
        old, new = seen.old, seen.new
        if old is not None and new is not None and old.status == new.status:
            return
        if old is not None and new is None and (owner := owner_of(old)):
            self.queue.activate(owner, self.clock.monotonic())  # it may have a new one made for its resources
        only = None if frees(old, new) else self._users(new or old)
        self._tell(object_happening(CLAIM, old, new), only)

    def _users(self, claim: ResourceClaim | None) -> Iterable[str]:
        if claim is None:
            return ()
        meta = claim.metadata
        pods = self.pods.indexed(BY_CLAIM, f"{meta.namespace}/{meta.name}")
        return filter(None, dict.fromkeys((owner_of(claim), *(pod.metadata.uid for pod in pods))))

    def resource_slice(self, change: Change[ResourceSlice]) -> None:
        """New devices, or fewer."""
        old, new = both(change)
        catalogue = self.cycle.tracker.catalogue
        if new is not None:
            catalogue.set_slice(new)
        elif old is not None:
            catalogue.remove_slice(old.metadata.name)
        self._tell(object_happening(SLICE, old, new))

    def device_class(self, change: Change[DeviceClass]) -> None:
        """Other devices may do, or a resource is served by devices now."""
        old, new = both(change)
        catalogue = self.cycle.tracker.catalogue
        if new is not None:
            catalogue.set_class(new)
        elif old is not None:
            catalogue.remove_class(old.metadata.name)
        self._tell(object_happening(DEVICE_CLASS, old, new))

    def taint_rule(self, change: Change[DeviceTaintRule]) -> None:
        """Devices got a taint or lost one."""
        old, new = both(change)
        catalogue = self.cycle.tracker.catalogue
        if new is not None:
            catalogue.set_rule(new)
        elif old is not None:
            catalogue.remove_rule(old.metadata.name)
        self._tell(object_happening(TAINT_RULE, old, new))

    def pod_group(self, change: Change[PodGroup]) -> None:
        """With the gate DRAWorkloadResourceClaims."""
        old, new = both(change)
        groups = self.cycle.tracker.groups
        if new is not None:
            groups.set_group(new)
        else:
            groups.remove_group(*change.key)
        self._tell(object_happening(POD_GROUP, old, new))

    def namespace(self, change: Change[Namespace]) -> None:
        """Terms about other pods read its labels; pods with terms are looked at anew each time, so nobody is told."""
        _, new = both(change)
        if new is not None:
            self.cycle.namespaces[new.metadata.name] = new.metadata.labels
        else:
            self.cycle.namespaces.pop(change.key[1], None)

    def tell(self, happening: Happening) -> None:
        """Something changed that is kept elsewhere."""
        self._tell(happening)

    def released(self, placed: Placed) -> None:
        """A pod was not bound: what was counted for it is free again, and nobody else tells so."""
        self._tell(Happening(POD, Action.DELETE, old=placed.pod))
        reserved = placed.reserved
        if reserved is None:
            return
        for place, result in sorted(reserved.allocations.items()):
            claim = reserved.plan.claims[place]
            held = replace(claim, status=replace(claim.status, allocation=result))
            self._tell(object_happening(CLAIM, held, None))

    def _tell(self, happening: Happening | None, only: Iterable[str] | None = None) -> None:
        if happening is not None:
            self.queue.happened(happening, self.clock.monotonic(), only)
            self.wake()
