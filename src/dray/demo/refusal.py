"""A claim that cannot be met, and why."""

from __future__ import annotations

from typing import Final

from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import find_workload
from dray.allocation.explanation.extended import Explained, explain_pod, use_of
from dray.allocation.features import features_for
from dray.allocation.profiles import Profile, profile_of_server
from dray.api.kinds import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.demo.claims_road import claiming_pod, memory_of, template
from dray.demo.journal import Journal
from dray.demo.pods import NAMESPACE
from dray.demo.scene import SCHEDULER, USER, Scene
from dray.scheduler.events import FAILED

POD: Final = "too-big"
_TEMPLATE: Final = "big-gpu"
_LEAST: Final = "100Gi"


async def refuse(scene: Scene) -> None:
    """The pod waits, is explained and deleted."""
    story = scene.story
    story.stage("A claim that nobody can meet")
    wanted = template(_TEMPLATE, memory_of(_LEAST))
    await scene.client.create(RESOURCE_CLAIM_TEMPLATES, wanted, namespace=NAMESPACE)
    at = await scene.create(claiming_pod(POD, _TEMPLATE))
    story.step(USER, f"created Pod {POD}, which claims a device with {_LEAST} of memory", at=at)
    event, at = await scene.journal.event(POD, FAILED)
    story.step(SCHEDULER, f"found no node for pod {POD}, which waits", event.message, at=at)
    version = await scene.client.server_version()
    profile, _ = profile_of_server(version.major, version.minor)
    story.refused(POD, event.message, explain(scene.journal, POD, profile))
    await scene.delete(POD)
    await scene.journal.gone(PODS, POD, f"the end of pod {POD}")


def explain(journal: Journal, name: str, profile: Profile) -> Explained:
    """As `dray explain pod/NAME` does, from what was seen."""
    cluster = Cluster(
        nodes=journal.now(NODES),
        slices=journal.now(RESOURCE_SLICES),
        claims=journal.now(RESOURCE_CLAIMS),
        classes=journal.now(DEVICE_CLASSES),
        templates=journal.now(RESOURCE_CLAIM_TEMPLATES),
        pods=journal.now(PODS),
        source="the cluster",
    )
    situation = Situation.of(cluster, profile, features_for(profile))
    workload = find_workload(cluster, f"pod/{name}", NAMESPACE)
    return explain_pod(situation, workload, cluster.nodes, use_of(cluster.pods))
