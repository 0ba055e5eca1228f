"""Why a pod got no node, in the one line that kube-scheduler writes into events and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dray.scheduler.fit.rejection import NODE_AFFINITY, Rejection


@dataclass(frozen=True)
class Diagnosis:
    """What `nodes` nodes said about a pod. `barred` is set where a check was against it before any node was asked.

    Nodes that were not asked are those whose names the pod's node affinity does not have.
    """

    nodes: int
    rejected: Mapping[str, Rejection] = field(default_factory=dict)
    barred: Rejection | None = None

    @property
    def rejectors(self) -> frozenset[str]:
        """The checks that were against it: what changes for one of them may wake the pod. None where there are no nodes."""
        if self.barred is not None:
            return frozenset({self.barred.check})
        checks = {rejection.check for rejection in self.rejected.values()}
        return frozenset(checks | {NODE_AFFINITY} if len(self.rejected) < self.nodes else checks)

    def __str__(self) -> str:
        if not self.nodes:
            return "no nodes available to schedule pods"
        start = f"0/{self.nodes} nodes are available:"
        if self.barred is not None:
            return f"{start} {self.barred}."
        counts = Counter(reason for one in self.rejected.values() for reason in one.reasons)
        if absent := self.nodes - len(self.rejected):
            counts[f"node(s) didn't satisfy plugin(s) [{NODE_AFFINITY}]"] += absent
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"{start} {reasons}."
