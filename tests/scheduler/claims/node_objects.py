"""Nodes with resources, pods whose containers use claims, and devices that take something from their node."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.codec import view
from dray.api.core import Node, Pod
from dray.api.core.pod import NodeAllocatableResourceClaimStatus
from tests.scheduler.claims.objects import (
    Json,
    device,
    pod,
)

CPUS = "example.com/cpus"
START = "node allocatable resource claim my-claim"


def worker(**allocatable: str) -> Node:
    held = {"cpu": "10", "memory": "10Gi", "pods": "110"} | allocatable
    meta = {"name": "worker", "labels": {"kubernetes.io/hostname": "worker"}}
    return view({"metadata": meta, "status": {"allocatable": held}}, Node)


def container(name: str = "main", *uses: str, **requests: str) -> Json:
    return {"name": name, "resources": {"claims": [{"name": one} for one in uses], "requests": requests}}


def user(*claims: str, name: str = "my-pod", containers: list[Json] | None = None, **spec: Any) -> Pod:
    return pod(
        *(claims or ("my-claim",)),
        name=name,
        containers=containers or [container("main", "entry-0")],
        **spec,
    )


def mapped(**mappings: Json | str) -> Json:
    """A text is a multiplier."""
    return {
        key: {"allocationMultiplier": one} if isinstance(one, str) else one for key, one in mappings.items()
    }


def taking(name: str = "instance-1", **mappings: Json | str) -> Json:
    return device(name, nodeAllocatableResourceMappings=mapped(**mappings))


def row(name: str, containers: list[str], **resources: str) -> Json:
    return {"resourceClaimName": name, "containers": containers, "resources": resources}


def holding(name: str, *claims: str, namespace: str = "default") -> Pod:
    one = pod(name=name, nodeName="worker")
    statuses = tuple(NodeAllocatableResourceClaimStatus(resource_claim_name=one) for one in claims)
    return msgspec.structs.replace(
        one,
        metadata=msgspec.structs.replace(one.metadata, namespace=namespace),
        status=msgspec.structs.replace(one.status, node_allocatable_resource_claim_statuses=statuses),
    )
