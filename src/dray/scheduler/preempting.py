"""Carries preemption out: victims are deleted, each only if it is still the same pod, and are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dray.allocation.budget import Budget
from dray.allocation.faults import TimeLimitError
from dray.api.core import Pod
from dray.api.kinds import PODS
from dray.runtime.logs import get_log
from dray.scheduler.claims.writes import Verb, Write
from dray.scheduler.cycle import Cycle
from dray.scheduler.decision import Chosen, Refused
from dray.scheduler.events import PREEMPTED, Teller, Word
from dray.scheduler.preemption import PodDisruptionBudget, Victims, choose_victims, priority
from dray.scheduler.writing import Writer

_log = get_log("scheduler.preemption")


class Preempting:
    """Remembers for whom pods are ending, so that no more are sent away meanwhile. A restart forgets that: then pods that
    are ending already are seen by their deletion timestamp."""

    def __init__(
        self,
        cycle: Cycle,
        writer: Writer,
        teller: Teller,
        budgets: Callable[[], Iterable[PodDisruptionBudget]],
    ) -> None:
        self._cycle = cycle
        self._writer = writer
        self._teller = teller
        self._budgets = budgets
        self._ending: dict[str, Victims] = {}

    def choose(self, refused: Refused, time: Budget) -> Victims | None:
        """Whom to end for a pod that found no node; None while others end for it already. Raises TimeLimitError.

        Who decided in a copy has chosen there, with the claims looked at (`search`): whoever is gone by now, or is elsewhere,
        makes that choice void.
        """
        pod = refused.pod
        if self._is_waiting(pod):
            return None
        victims = self._known(refused) if refused.is_told else self._found(refused, time)
        if victims is not None:
            self._ending[pod.metadata.uid] = victims
            self._cycle.keep(victims.node, pod)
        return victims

    def search(self, refused: Refused, time: Budget) -> Chosen | None:
        """In a copy, for who asks `choose` afterwards. Where the time is over nobody is chosen."""
        if self._is_waiting(refused.pod):
            return None
        try:
            found = self._found(refused, time)
        except TimeLimitError:
            return None
        if found is None:
            return None
        return Chosen(found.node, tuple(one.metadata.uid for one in found.pods), found.violations)

    def _found(self, refused: Refused, time: Budget) -> Victims | None:
        cycle = self._cycle
        fit = cycle.fit_of(refused.pod, time)
        return choose_victims(refused, fit, cycle.nodes, cycle.tracker, self._budgets(), time)

    def _known(self, refused: Refused) -> Victims | None:
        chosen = refused.victims
        if chosen is None:
            return None
        own, pods = priority(refused.pod), [self._cycle.nodes.pod(uid) for uid in chosen.uids]
        still = [
            one
            for one in pods
            if one is not None and one.spec.node_name == chosen.node and priority(one) < own
        ]
        return Victims(chosen.node, tuple(still), chosen.violations) if len(still) == len(pods) else None

    def pending(self, pod: Pod) -> Victims | None:
        """Who ends for the pod and is not gone yet."""
        victims, nodes = self._ending.get(pod.metadata.uid), self._cycle.nodes
        is_there = victims is not None and any(nodes.pod(one.metadata.uid) for one in victims.pods)
        return victims if is_there else None

    async def end(self, pod: Pod, victims: Victims) -> None:
        """Delete them, with the time they ask for to end. Where it fails, the next try of the pod chooses anew."""
        for victim in victims.pods:
            meta = victim.metadata
            write = Write(
                Verb.DELETE,
                PODS,
                meta.namespace,
                meta.name,
                f"preempt pod {meta.namespace}/{meta.name}",
                uid=meta.uid,
            )
            if await self._writer.settle((write,)):
                self.forget(pod.metadata.uid)
                return
            by = f"{pod.metadata.namespace}/{pod.metadata.name}"
            text = f"Preempted by pod {by} on node {victims.node}"
            self._teller.tell(Word(victim, "Normal", PREEMPTED, text))
            _log.info("pod preempted", pod=f"{meta.namespace}/{meta.name}", by=by, node=victims.node)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone, or nobody ends for it: the node is anybody's again."""
        if self._ending.pop(uid, None) is not None:
            self._cycle.release(uid)

    def prune(self, is_waiting: Callable[[str], bool]) -> None:
        """Forget pods that do not wait any more. From time to time."""
        for uid in [uid for uid in self._ending if not is_waiting(uid)]:
            self.forget(uid)

    def _is_waiting(self, pod: Pod) -> bool:
        nodes = self._cycle.nodes
        if self.pending(pod) is not None:
            return True
        self.forget(pod.metadata.uid)
        info = nodes.get(pod.status.nominated_node_name)
        return info is not None and any(
            one.pod.metadata.deletion_timestamp is not None and priority(one.pod) < priority(pod)
            for one in info.pods.values()
        )
