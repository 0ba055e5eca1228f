"""Cases for the small core kinds."""

from __future__ import annotations

from typing import Final

from dray.api.kinds import CONFIG_MAPS, EVENTS, NODES
from tests.api.cases.case import DROP, NAMESPACE, Table

# fmt: off
NODE_TABLE: Final = Table(
    NODES,
    lambda: {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-a"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "example.com/gpu": "2"}},
    },
)
NODE_TABLE.create("valid", {})
NODE_TABLE.create("name wrong", {"metadata.name": "A"}, "Invalid metadata.name")
NODE_TABLE.create(
    "taint wrong",
    {"spec.taints": [{"key": "a b", "value": "-", "effect": "None"}, {}]},
    "Invalid metadata.taints[0].key",
    "Invalid metadata.taints[0].value",
    "NotSupported metadata.taints[0].effect",
    "Invalid metadata.taints[1].key",
    "Required metadata.taints[1].effect",
)
NODE_TABLE.create("taint twice", {"spec.taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "Duplicate metadata.taints[1]")
NODE_TABLE.create(
    "half a device",
    {("status", "capacity", "example.com/gpu"): "500m"},
    "Invalid status.capacity.example.com/gpu",
    "Invalid status.allocatable.example.com/gpu",
)
NODE_TABLE.update("unschedulable", {"spec.unschedulable": True})
NODE_TABLE.update("provider id changes", {"spec.providerID": "b"}, "Forbidden spec.providerID", old={"spec.providerID": "a"})

MAP_TABLE: Final = Table(
    CONFIG_MAPS,
    lambda: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "map-a", "namespace": NAMESPACE},
        "data": {"a.b": "c"},
        "binaryData": {"d": "AAEC"},
    },
)
MAP_TABLE.create("valid", {})
MAP_TABLE.create("key wrong", {"data": {"a/b": "c", "..": "", "..a": ""}}, "Invalid data[a/b]", "Invalid data[..]", "Invalid data[..a]")
MAP_TABLE.create("key twice", {"data": {"d": "c"}}, "Invalid data[d]")
MAP_TABLE.create("too large", {"data": {"d1": "x" * (1024 * 1024 - 2)}}, "TooLong []")
MAP_TABLE.update("changes", {"data": {"x": "y"}})
MAP_TABLE.update("immutable changes", {"data": {"x": "y"}, "immutable": DROP}, "Forbidden immutable", "Forbidden data", old={"immutable": True})

EVENT_TABLE: Final = Table(
    EVENTS,
    lambda: {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "event-a", "namespace": NAMESPACE},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": NAMESPACE},
        "reason": "R",
    },
)
_NEW: Final = {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "dray", "reportingInstance": "i", "action": "A"}
EVENT_TABLE.create("valid", {})
EVENT_TABLE.create("of another namespace", {"involvedObject.namespace": "x"}, "Invalid involvedObject.namespace")
EVENT_TABLE.create("of no namespace", {"involvedObject.namespace": ""}, "Invalid involvedObject.namespace")
EVENT_TABLE.create("new", _NEW)
EVENT_TABLE.create(
    "new, bare",
    {"eventTime": _NEW["eventTime"], "reason": ""},
    "Required reportingComponent",
    "Invalid reportingComponent",
    "Required reportingInstance",
    "Required action",
    "Required reason",
)
EVENT_TABLE.create("new, too long", {**_NEW, "action": "a" * 129, "message": "m" * 1025}, "Invalid action", "Invalid message")
TABLES: Final = (NODE_TABLE, MAP_TABLE, EVENT_TABLE)
