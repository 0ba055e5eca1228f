"""Cases for ResourceSlice: the slice itself."""

from __future__ import annotations

from typing import Any, Final

from dray.api.kinds import RESOURCE_SLICES
from tests.api.cases.case import DROP, Document, Table, named


def slice_document() -> Document:
    """Two devices of a node: one with some of everything simple, one plain."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice-a"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "node-a",
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {
                        "model": {"string": "a100"},
                        "example.com/index": {"int": 0},
                        "healthy": {"bool": True},
                        "driverVersion": {"version": "1.2.3-rc.1+b5"},
                    },
                    "capacity": {"memory": {"value": "40Gi"}, "example.com/lanes": {"value": 16}},
                },
                {"name": "gpu-1"},
            ],
        },
    }


# fmt: off
TABLE: Final = Table(RESOURCE_SLICES, slice_document)
_create, _update = TABLE.create, TABLE.update

TERM: Final = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def _selector(*terms: Any) -> dict[str, Any]:
    return {"spec.nodeName": DROP, "spec.nodeSelector": {"nodeSelectorTerms": list(terms)}}


_create("valid", {})
_create("no devices and no counters is an empty pool", {"spec.devices": DROP})
_create("no devices in a list is an empty pool", {"spec.devices": []})
_create("an empty spec", {"spec": {}}, "Required spec.driver", "Required spec.pool.name", "Invalid spec.pool.resourceSliceCount", "Required spec")

# driver
_create("driver is required", {"spec.driver": DROP}, "Required spec.driver")
_create("driver of 63 bytes", {"spec.driver": "d" * 63})
_create("driver of 64 bytes", {"spec.driver": "d" * 64}, "TooLong spec.driver")
_create("driver in upper case", {"spec.driver": "GPU.Example.com"})
_create("driver with an underscore", {"spec.driver": "gpu_driver"}, "Invalid spec.driver")
_create("driver with a slash", {"spec.driver": "gpu/driver"}, "Invalid spec.driver")
_create("driver ends in a line break", {"spec.driver": "gpu.example.com\n"}, "Invalid spec.driver")
_create("driver long and wrong", {"spec.driver": "_" * 300}, "TooLong spec.driver", "Invalid spec.driver")

# pool
_create("pool is required", {"spec.pool": DROP}, "Required spec.pool.name", "Invalid spec.pool.resourceSliceCount")
_create("pool name is required", {"spec.pool.name": ""}, "Required spec.pool.name")
_create("pool name with slashes", {"spec.pool.name": "zone-1/rack.2/node-a"})
_create("pool name with an empty part", {"spec.pool.name": "zone//node"}, "Invalid spec.pool.name")
_create("pool name with a bad part", {"spec.pool.name": "zone/Node"}, "Invalid spec.pool.name")
_create("pool name of 253 bytes", {"spec.pool.name": "/".join(["a" * 63] * 3 + ["a" * 61])})
_create("pool name of 254 bytes", {"spec.pool.name": "/".join(["a" * 63] * 3 + ["a" * 62])}, "TooLong spec.pool.name")
_create("generation zero", {"spec.pool.generation": 0})
_create("generation negative", {"spec.pool.generation": -1}, "Invalid spec.pool.generation")
_create("slice count zero", {"spec.pool.resourceSliceCount": 0}, "Invalid spec.pool.resourceSliceCount")
_create("slice count negative", {"spec.pool.resourceSliceCount": -5}, "Invalid spec.pool.resourceSliceCount")

# where
_create("no place", {"spec.nodeName": DROP}, "Required spec")
_create("two places", {"spec.allNodes": True}, "Invalid spec")
_create("three places", {"spec.allNodes": True, "spec.nodeSelector": {"nodeSelectorTerms": [TERM]}}, "Invalid spec")
_create("node name empty", {"spec.nodeName": ""}, "Invalid spec.nodeName", "Required spec")
_create("node name wrong", {"spec.nodeName": "Node_A"}, "Invalid spec.nodeName")
_create("node name too long", {"spec.nodeName": "a" * 254}, "Invalid spec.nodeName")
_create("all nodes", {"spec.nodeName": DROP, "spec.allNodes": True})
_create("all nodes false", {"spec.allNodes": False}, "Invalid spec.allNodes")
_create("only all nodes false", {"spec.nodeName": DROP, "spec.allNodes": False}, "Invalid spec.allNodes", "Required spec")
_create("node selector", _selector(TERM))
_create("node selector without terms", _selector(), "Required spec.nodeSelector.nodeSelectorTerms", "Invalid spec.nodeSelector.nodeSelectorTerms")
_create("node selector with two terms", _selector(TERM, TERM), "Invalid spec.nodeSelector.nodeSelectorTerms")
_create("node selector with an empty term", _selector({}))
_T: Final = "spec.nodeSelector.nodeSelectorTerms[0]"
_create(
    "selector operator unknown",
    _selector({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}),
    f"Invalid {_T}.matchExpressions[0].operator",
)
_create("selector In without values", _selector({"matchExpressions": [{"key": "a", "operator": "In"}]}), f"Required {_T}.matchExpressions[0].values")
_create(
    "selector Exists with values",
    _selector({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
    f"Forbidden {_T}.matchExpressions[0].values",
)
_create(
    "selector Gt with two values",
    _selector({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]}),
    f"Required {_T}.matchExpressions[0].values",
)
_create("selector Gt with a word passes", _selector({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}))
_create("selector key wrong", _selector({"matchExpressions": [{"key": "-a", "operator": "Exists"}]}), f"Invalid {_T}.matchExpressions[0].key")
_create(
    "selector key and operator missing",
    _selector({"matchExpressions": [{}]}),
    f"Invalid {_T}.matchExpressions[0].key",
    f"Invalid {_T}.matchExpressions[0].operator",
)
_create(
    "selector value wrong",
    _selector({"matchExpressions": [{"key": "a", "operator": "In", "values": ["ok", "-"]}]}),
    f"Invalid {_T}.matchExpressions[0].values[1]",
)
_create("selector by node name", _selector({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}))
_create(
    "selector by another field",
    _selector({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}),
    f"Invalid {_T}.matchFields[0].key",
)
_create(
    "selector by two node names",
    _selector({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
    f"Required {_T}.matchFields[0].values",
)
_create(
    "selector by existing field",
    _selector({"matchFields": [{"key": "metadata.name", "operator": "Exists", "values": ["A"]}]}),
    f"Invalid {_T}.matchFields[0].operator",
    f"Invalid {_T}.matchFields[0].values[0]",
)

# devices and counters
_create("128 devices", {"spec.devices": named(128)})
_create("129 devices", {"spec.devices": named(129)}, "TooMany spec.devices")
_TAINT: Final = {"key": "a", "effect": "NoSchedule"}
_COUNTER: Final = {"counterSet": "set", "counters": {"memory": {"value": "1"}}}
_create("64 devices, one tainted", {"spec.devices": named(64), "spec.devices.63.taints": [_TAINT]})
_create("65 devices, one tainted", {"spec.devices": named(65), "spec.devices.64.taints": [_TAINT]}, "TooMany spec.devices")
_create("65 devices, one consumes", {"spec.devices": named(65), "spec.devices.0.consumesCounters": [_COUNTER]}, "TooMany spec.devices")
_create("65 devices, one has a list", {"spec.devices": named(65), "spec.devices.9.attributes": {"a": {"ints": [1]}}}, "TooMany spec.devices")
_create("too many devices are not looked into", {"spec.devices": named(129, nodeName="X")}, "TooMany spec.devices")
_create("device name twice", {"spec.devices.1.name": "gpu-0"}, "Duplicate spec.devices[1]")
_create("device name thrice", {"spec.devices": [{"name": "a"}] * 3}, "Duplicate spec.devices[1]", "Duplicate spec.devices[2]")

_SETS: Final = [{"name": "set", "counters": {"memory": {"value": "40Gi"}, "slots": {"value": 7}}}]
_NO_DEVICES: Final = {"spec.devices": DROP, "spec.sharedCounters": _SETS}
_create("shared counters", _NO_DEVICES)
_create("devices and shared counters", {"spec.sharedCounters": _SETS}, "Invalid spec")
_create("empty devices and shared counters", {**_NO_DEVICES, "spec.devices": []}, "Invalid spec")
_create("devices and empty shared counters", {"spec.sharedCounters": []}, "Invalid spec")
_create("eight counter sets", {**_NO_DEVICES, "spec.sharedCounters": named(8, counters={"a": {"value": 1}})})
_create("nine counter sets", {**_NO_DEVICES, "spec.sharedCounters": named(9, counters={"a": {"value": 1}})}, "TooMany spec.sharedCounters")
_create("counter set twice", {**_NO_DEVICES, "spec.sharedCounters": _SETS * 2}, "Duplicate spec.sharedCounters[1]")
_create("counter set without a name", {**_NO_DEVICES, "spec.sharedCounters.0.name": ""}, "Required spec.sharedCounters[0].name")
_create("counter set name wrong", {**_NO_DEVICES, "spec.sharedCounters.0.name": "a.b"}, "Invalid spec.sharedCounters[0].name")
_create("counter set empty", {**_NO_DEVICES, "spec.sharedCounters.0.counters": {}}, "Required spec.sharedCounters[0].counters")
_create("counter name wrong", {**_NO_DEVICES, "spec.sharedCounters.0.counters": {"A": {"value": 1}}}, "Invalid spec.sharedCounters[0].counters")
_MANY: Final = {f"c{number}": {"value": 1} for number in range(33)}
_create("32 counters", {**_NO_DEVICES, "spec.sharedCounters.0.counters": {key: _MANY[key] for key in [*_MANY][:32]}})
_create("33 counters", {**_NO_DEVICES, "spec.sharedCounters.0.counters": _MANY}, "TooMany spec.sharedCounters[0].counters")
_create("counter value negative", {**_NO_DEVICES, "spec.sharedCounters.0.counters": {"a": {"value": "-5"}}})
_create("counter value missing is zero", {**_NO_DEVICES, "spec.sharedCounters.0.counters": {"a": {}}})

# update
_update("nothing changes", {})
_update("driver changes", {"spec.driver": "other.example.com"}, "Invalid spec.driver")
_update("pool name changes", {"spec.pool.name": "node-b"}, "Invalid spec.pool.name")
_update("node name changes", {"spec.nodeName": "node-b"}, "Invalid spec.nodeName")
_update("node name goes", {"spec.nodeName": DROP, "spec.allNodes": True}, "Invalid spec.nodeName")
_update("node name comes", {"spec.nodeName": "a", "spec.allNodes": DROP}, "Invalid spec.nodeName", old={"spec.nodeName": DROP, "spec.allNodes": True})
_update(
    "all nodes becomes a selector",
    {"spec.allNodes": DROP, "spec.nodeSelector": {"nodeSelectorTerms": [TERM]}},
    old={"spec.nodeName": DROP, "spec.allNodes": True},
)
_update("devices, generation and count change", {"spec.devices": named(3), "spec.pool.generation": 2, "spec.pool.resourceSliceCount": 4})
_update("generation goes back", {"spec.pool.generation": 0})
_update("devices become invalid", {"spec.devices.0.name": "X"}, "Invalid spec.devices[0].name")
_update(
    "two faults at once",
    {"spec.driver": "", "spec.pool.generation": -1},
    "Invalid spec.driver",
    "Required spec.driver",
    "Invalid spec.pool.generation",
)
