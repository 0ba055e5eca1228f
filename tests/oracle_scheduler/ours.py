"""What Dray's scheduler says of the same clusters, step by step as kube-scheduler does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dray.allocation.allocator import Options
from dray.allocation.features import features_for
from dray.allocation.profiles import KUBERNETES_1_36
from dray.api.codec import view
from dray.api.core import Node, Pod
from dray.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.outcome import Code, Status
from dray.scheduler.claims.pre_enqueue import pre_enqueue
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import Cycle
from dray.scheduler.fit.filters import Fit, FitOptions, gated
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.fit.volume_objects import PersistentVolume, PersistentVolumeClaim, StorageClass, Volumes
from dray.scheduler.nodes import Nodes
from dray.semantics.features import parse_feature_gates

Json = dict[str, Any]
Verdict = tuple[str, str, tuple[str, ...]]
"""Plugin, code, reasons."""

DEVICES = "DynamicResources"
FITS: Verdict = ("", "Success", ())


@dataclass(frozen=True, slots=True)
class PodVerdicts:
    """What was against the pod before nodes were asked, or else each node's word."""

    pod: Pod
    enqueue: Verdict | None = None
    filtered: Verdict | None = None
    nodes: dict[str, Verdict] | None = None
    asked: Filter | None = None

    @property
    def feasible(self) -> list[str]:
        """The nodes that do: none where one of them made the try fail."""
        found = self.nodes or {}
        if any(code == "Error" for _, code, _ in found.values()):
            return []
        return sorted(name for name, verdict in found.items() if verdict == FITS)


class World:
    """A cluster as our scheduler holds it. `cycle` decides on its own; `ask` takes the steps one by one."""

    def __init__(self, state: Json, now: datetime, gates: str = "") -> None:
        features = features_for(KUBERNETES_1_36, parse_feature_gates(gates))
        options = Options(features, KUBERNETES_1_36, step_limit=2_000_000)
        self.settings = Settings.of(options)
        self.now = now
        self.nodes = Nodes()
        self.tracker = Tracker(self.settings)
        for one in state["nodes"]:
            self.nodes.put_node(view(one, Node))
        for one in state["pods"]:
            self.nodes.put_pod(view(one, Pod))
        for one in state["classes"]:
            self.tracker.catalogue.set_class(view(one, DeviceClass))
        for one in state["slices"]:
            self.tracker.catalogue.set_slice(view(one, ResourceSlice))
        for one in state["rules"]:
            self.tracker.catalogue.set_rule(view(one, DeviceTaintRule))
        for one in state["claims"]:
            self.tracker.set_claim(view(one, ResourceClaim))
        self.volumes = Volumes.of(
            (view(one, PersistentVolumeClaim) for one in state.get("volumeClaims", ())),
            (view(one, PersistentVolume) for one in state.get("volumes", ())),
            (view(one, StorageClass) for one in state.get("storageClasses", ())),
        )
        self.cycle = Cycle(self.nodes, self.tracker, self.settings)
        self.namespaces = {one["metadata"]["name"]: one["metadata"]["labels"] for one in state["namespaces"]}
        self.cycle.namespaces.update(self.namespaces)

    def ask(self, raw: Json) -> PodVerdicts:
        """All steps before a node is chosen."""
        pod = view(raw, Pod)
        if barred := gated(pod):
            return PodVerdicts(pod, enqueue=_of_fit(barred))
        status = pre_enqueue(pod, self.tracker.get)
        if not status.is_success:
            return PodVerdicts(pod, enqueue=_of_claims(status))
        served = frozenset(self.tracker.catalogue.class_of)
        options = FitOptions(served=served, namespaces=self.namespaces, volumes=self.volumes)
        fit = Fit.of(pod, self.nodes, options)
        if barred := fit.barred():
            return PodVerdicts(pod, filtered=_of_fit(barred))
        found = pre_filter(pod, self.tracker, self.settings)
        if not found.status.is_success and found.status.code is not Code.SKIP:
            return PodVerdicts(pod, filtered=_of_claims(found.status))
        asked = Filter(found.plan, self.tracker, self.settings, self.now) if found.status.is_success else None
        verdicts = {}
        for info in self.nodes:
            refused = fit.refused(info)
            if refused is not None:
                verdicts[info.name] = _of_fit(refused)
            else:
                verdicts[info.name] = _of_claims(asked.check(info.node).status) if asked else FITS
        return PodVerdicts(pod, nodes=verdicts, asked=asked)


def _of_fit(one: Rejection) -> Verdict:
    code = "Unschedulable" if one.can_resolve else "UnschedulableAndUnresolvable"
    return one.check, code, tuple(sorted(one.reasons))


def _of_claims(status: Status) -> Verdict:
    return FITS if status.is_success else (DEVICES, status.code.value, (status.reason,))
