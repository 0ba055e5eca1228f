"""Pods and nodes for tests, as short as the test allows."""

from __future__ import annotations

import json
from typing import Any

from dray.api.codec import decode
from dray.api.core import Node, Pod

Json = dict[str, Any]


def make_pod(
    name: str = "pod", *, requests: dict[str, str] | None = None, node: str = "", **spec: Any
) -> Pod:
    """Its uid is its name. `labels`, `namespace` and `status` go where they belong, the rest is its spec."""
    metadata = {
        "name": name,
        "uid": name,
        "namespace": spec.pop("namespace", "default"),
        "labels": spec.pop("labels", {}),
    }
    status = spec.pop("status", {})
    container = {"name": "c", "resources": {"requests": requests or {}}}
    raw = {"containers": [container], "nodeName": node, **spec}
    return decode(json.dumps({"metadata": metadata, "spec": raw, "status": status}), Pod)


def make_node(name: str = "node", *, labels: dict[str, str] | None = None, **allocatable: str) -> Node:
    """Takes 110 pods where nothing else is said."""
    metadata = {"name": name, "labels": labels or {}}
    amounts = {"pods": "110", **{key.replace("_", "-"): value for key, value in allocatable.items()}}
    return decode(json.dumps({"metadata": metadata, "status": {"allocatable": amounts}}), Node)


def with_spec(node: Node, **spec: Any) -> Node:
    """The same node, where an administrator set something."""
    raw = {"metadata": {"name": node.metadata.name, "labels": node.metadata.labels}, "spec": spec}
    made = decode(json.dumps(raw), Node)
    return Node(metadata=made.metadata, spec=made.spec, status=node.status)
