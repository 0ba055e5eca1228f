"""Cases for ResourceSlice: what a device may hold."""

from __future__ import annotations

from typing import Any, Final

from dray.api.kinds import RESOURCE_SLICES
from tests.api.cases.case import DROP, Document, Edits, Table
from tests.api.cases.slices import TERM, slice_document

# fmt: off
TABLE: Final = Table(RESOURCE_SLICES, slice_document)
_D: Final = "spec.devices[0]"
_create, _update = TABLE.create, TABLE.update


def _device(name: str, edits: Edits, *expected: str, **more: Any) -> None:
    """Edits to the first device; `expected` paths are relative to it."""
    prefixed = {("spec", "devices", 0, *_path(key)): value for key, value in edits.items()}
    _create(name, prefixed, *map(_full, expected), **more)


def _path(key: str | tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(key.split(".")) if isinstance(key, str) else key


def _full(expected: str) -> str:
    reason, _, field = expected.partition(" ")
    joint = "" if not field or field.startswith("[") else "."
    return f"{reason} {_D}{joint}{field}"


_device("device name missing", {"name": ""}, "Invalid name")
_device("device name with a dot", {"name": "gpu.0"}, "Invalid name")
_device("device name of 63", {"name": "g" * 63})
_device("device name of 64", {"name": "g" * 64}, "Invalid name")
_device("device name in upper case", {"name": "GPU"}, "Invalid name")

# attributes and capacity: names
for _field, _value in (("attributes", {"int": 1}), ("capacity", {"value": "1"})):
    _device(f"{_field}: plain and qualified names", {_field: {"a_B9": _value, "_": _value, "x.io/a": _value}})
    _device(f"{_field}: name empty", {_field: {"": _value}}, f"Invalid {_field}")
    _device(f"{_field}: name starts with a digit", {_field: {"9a": _value}}, f"Invalid {_field}")
    _device(f"{_field}: name with a dash", {_field: {"a-b": _value}}, f"Invalid {_field}")
    _device(f"{_field}: name of 32", {_field: {"a" * 32: _value}})
    _device(f"{_field}: name of 33", {_field: {"a" * 33: _value}}, f"TooLong {_field}")
    _device(f"{_field}: domain of 63", {_field: {"d" * 63 + "/a": _value}})
    _device(f"{_field}: domain of 64", {_field: {"d" * 64 + "/a": _value}}, f"TooLong {_field}")
    _device(f"{_field}: domain empty", {_field: {"/a": _value}}, f"Invalid {_field}")
    _device(f"{_field}: id empty", {_field: {"a.io/": _value}}, f"Invalid {_field}")
    _device(f"{_field}: domain wrong", {_field: {"a_b/c": _value}}, f"Invalid {_field}")
    _device(f"{_field}: two slashes slip through", {_field: {"a/b/c-d": _value}})

# attributes: values
_device("attribute without a value", {"attributes": {"a": {}}}, "Invalid attributes[a]")
_device("attribute with two values", {"attributes": {"a": {"int": 1, "bool": True}}}, "Invalid attributes[a]")
_device("attribute with a scalar and a list", {"attributes": {"a": {"int": 1, "ints": [1]}}}, "Invalid attributes[a]")
_device(
    "attribute with three values",
    {"attributes": {"a": {"int": 1, "string": "", "version": "x"}}},
    "Invalid attributes[a]",
    "Invalid attributes[a].version",
)
_device("attribute of unknown kind", {"attributes": {"a": {"float": 1.5}}}, "Invalid attributes[a]")
_device(
    "attribute key shown short",
    {"attributes": {"d" * 70 + "/" + "a" * 40: {}}},
    "TooLong attributes",
    f"Invalid attributes[{'d' * 47}...{'d' * 5}/{'a' * 40}]",
)
_device("string of 64", {"attributes": {"a": {"string": "s" * 64}}})
_device("string of 65", {"attributes": {"a": {"string": "s" * 65}}}, "TooLong attributes[a].string")
_device("string of 33 two-byte letters", {"attributes": {"a": {"string": "ä" * 33}}}, "TooLong attributes[a].string")
_device("string empty", {"attributes": {"a": {"string": ""}}})
_device("int zero and negative", {"attributes": {"a": {"int": 0}, "b": {"int": -(2**63)}}})
_device("bool false", {"attributes": {"a": {"bool": False}}})
for _version, _fine in (
    ("1.0.0", True),
    ("1.0", False),
    ("v1.0.0", False),
    ("01.0.0", False),
    ("1.0.0-01", False),
    ("1.0.0-0a.x", True),
    ("1.0.0+01.build", True),
    ("", False),
    ("1.0.0\n", False),
):
    _device(f"version {_version!r}", {"attributes": {"a": {"version": _version}}}, *(() if _fine else ("Invalid attributes[a].version",)))
_device("version of 64", {"attributes": {"a": {"version": "1.0.0-" + "a" * 58}}})
_device("version of 65", {"attributes": {"a": {"version": "1.0.0-" + "a" * 59}}}, "TooLong attributes[a].version")
_device("version long and wrong", {"attributes": {"a": {"version": "x" * 65}}}, "TooLong attributes[a].version", "Invalid attributes[a].version")
_device("lists", {"attributes": {"a": {"ints": [1, 1]}, "b": {"bools": [True]}, "c": {"strings": ["", "x"]}, "d": {"versions": ["1.0.0"]}}})
for _kind in ("ints", "bools", "strings", "versions"):
    _device(f"{_kind} empty", {"attributes": {"a": {_kind: []}}}, f"Invalid attributes[a].{_kind}")
_device(
    "list item wrong",
    {"attributes": {"a": {"strings": ["", "s" * 65]}, "b": {"versions": ["1.0.0", "1"]}}},
    "TooLong attributes[a].strings[1]",
    "Invalid attributes[b].versions[1]",
)
_device("two lists", {"attributes": {"a": {"strings": ["x"], "versions": ["y"]}}}, "Invalid attributes[a]", "Invalid attributes[a].versions[0]")
_MANY: Final = {f"a{number}": {"int": number} for number in range(33)}
_device(
    "32 attributes and capacities", {"attributes": {key: _MANY[key] for key in [*_MANY][:30]}, "capacity": {"a": {"value": 1}, "b": {"value": 1}}}
)
_device(
    "33 attributes and capacities",
    {"attributes": {key: _MANY[key] for key in [*_MANY][:31]}, "capacity": {"a": {"value": 1}, "b": {"value": 1}}},
    "Invalid ",
)
_device("33 attributes", {"attributes": _MANY, "capacity": DROP}, "Invalid ")
_device("48 values", {"attributes": {"a": {"ints": [1] * 47}, "b": {"int": 1}}})
_device("49 values", {"attributes": {"a": {"ints": [1] * 47}, "b": {"int": 1}, "c": {"bool": True}}}, "Invalid ")

# capacity
_device(
    "capacity in all notations", {"capacity": {"a": {"value": "1500m"}, "b": {"value": "1e3"}, "c": {"value": 2.5}, "d": {"value": "-1Gi"}, "e": {}}}
)


def _policy(name: str, policy: Document, *expected: str, value: Any = "100", **more: Any) -> None:
    """A request policy on a capacity of a device that may be shared; paths are relative to the policy."""
    edits = {"allowMultipleAllocations": True, "capacity": {"c": {"value": value, "requestPolicy": policy}}}
    full = [f"{line.partition(' ')[0]} capacity[c].requestPolicy{line.partition(' ')[2]}" for line in expected]
    _device(f"policy: {name}", edits, *full, **more)


_POLICY: Final = {"c": {"value": "1", "requestPolicy": {"default": "1"}}}
_device("policy without sharing", {"capacity": _POLICY}, "Forbidden capacity[c].requestPolicy")
_device("policy with sharing false", {"capacity": _POLICY, "allowMultipleAllocations": False}, "Forbidden capacity[c].requestPolicy")
_policy("empty", {})
_policy("default alone", {"default": "500"})
_policy("both kinds", {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}, "Forbidden ")
_policy("empty values and a range", {"default": "1", "validValues": [], "validRange": {"min": "1"}})
_policy("values without default", {"validValues": ["1"]}, "Required .default")
_policy("range without default", {"validRange": {"min": "1"}}, "Required .default")
_policy("values", {"default": "20", "validValues": ["10", "20", "100"]})
_policy("values not ascending", {"default": "20", "validValues": ["20", "10"]}, "Invalid .validValues[1]")
_policy("values equal", {"default": "20", "validValues": ["20", "20"]}, "Duplicate .validValues[1]")
_policy("values equal when rounded up", {"default": "1500m", "validValues": ["1500m", "2"]}, "Duplicate .validValues[1]")
_policy("value above the capacity", {"default": "20", "validValues": ["20", "101"]}, "Invalid .validValues[1]")
_policy("default not among the values", {"default": "30", "validValues": ["20"]}, "Invalid .validValues")
_policy("default in another notation", {"default": "1000m", "validValues": ["1"]})
_policy("ten values", {"default": "1", "validValues": [str(number) for number in range(1, 11)]})
_policy("eleven values", {"default": "1", "validValues": [str(number) for number in range(1, 12)]}, "TooMany .validValues", "Invalid .validValues")
_policy("range", {"default": "20", "validRange": {"min": "10", "max": "90", "step": "5"}})
_policy("range without min", {"default": "20", "validRange": {"max": "90"}}, "Required .validRange.min")
_policy("range min above the capacity", {"default": "200", "validRange": {"min": "101"}}, "Invalid .validRange.min")
_policy("range default below min", {"default": "9", "validRange": {"min": "10"}}, "Invalid .validRange.min")
_policy("range default above max", {"default": "91", "validRange": {"min": "10", "max": "90"}}, "Invalid .validRange.max")
_policy("range min above max", {"default": "50", "validRange": {"min": "50", "max": "40"}}, "Invalid .validRange.max")
_policy("range max above the capacity", {"default": "50", "validRange": {"min": "50", "max": "101"}}, "Invalid .validRange.max")
_policy("range one step above the capacity", {"default": "50", "validRange": {"min": "50", "step": "60"}}, "Invalid .validRange.step")
_policy("range default off the steps", {"default": "23", "validRange": {"min": "20", "step": "5"}}, "Invalid .validRange.step")
_policy("range max off the steps", {"default": "25", "validRange": {"min": "20", "max": "28", "step": "5"}}, "Invalid .validRange.step")
_policy("range steps are whole numbers", {"default": "2", "validRange": {"min": "1", "step": "500m"}})
_policy(
    "range step zero", {"default": "20", "validRange": {"min": "10", "step": "0"}}, "Invalid .validRange.step", ours_only="the 1.36 API server panics"
)
_policy(
    "range all wrong",
    {"default": "1", "validRange": {"min": "200", "max": "150", "step": "7"}},
    "Invalid .validRange.min",
    "Invalid .validRange.max",
    "Invalid .validRange.step",
)

# taints
_device("taint", {"taints": [{"key": "example.com/x", "value": "v", "effect": "NoExecute"}, {"key": "a", "effect": "None"}]})
_device("taint empty", {"taints": [{}]}, "Invalid taints[0].key", "Required taints[0].effect")
_device("taint key wrong", {"taints": [{"key": "a b", "effect": "None"}]}, "Invalid taints[0].key")
_device("taint value wrong", {"taints": [{"key": "a", "value": "-", "effect": "None"}]}, "Invalid taints[0].value")
_device("taint effect of nodes", {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, "NotSupported taints[0].effect")
_device("16 taints", {"taints": [{"key": "a", "effect": "None"}] * 16})
_device("17 taints", {"taints": [{"key": "a", "effect": "None"}] * 17}, "TooMany taints")
_OLD: Final = {("spec", "devices", 0, "taints"): [{"key": "a", "effect": "Later", "timeAdded": "2026-01-01T00:00:00Z"}]}
_STORED: Final = "such a slice comes from a newer API server only"
_update("stored taints stay", {("spec", "devices", 1, "taints"): [{"key": "b", "effect": "None"}]}, old=_OLD, ours_only=_STORED)
_update(
    "stored taints move with their device",
    {"spec.devices": [{"name": "new"}, {"name": "gpu-0", "taints": [{"key": "a", "effect": "Later", "timeAdded": "2026-01-01T00:00:00Z"}]}]},
    old=_OLD,
    ours_only=_STORED,
)
_update(
    "stored taints are not for others",
    {("spec", "devices", 1, "taints"): [{"key": "a", "effect": "Later"}]},
    "NotSupported spec.devices[1].taints[0].effect",
    old=_OLD,
    ours_only=_STORED,
)
_update(
    "changed taints are looked at",
    {("spec", "devices", 0, "taints", 0, "value"): "v"},
    "NotSupported spec.devices[0].taints[0].effect",
    old=_OLD,
    ours_only=_STORED,
)

# counters
_TAKES: Final = {"counterSet": "set", "counters": {"memory": {"value": "1"}}}
_device("consumes", {"consumesCounters": [_TAKES, {**_TAKES, "counterSet": "other"}]})
_device("consumes thrice", {"consumesCounters": [{**_TAKES, "counterSet": name} for name in "abc"]}, "TooMany consumesCounters")
_device("consumes one set twice", {"consumesCounters": [_TAKES, _TAKES]}, "Duplicate consumesCounters[1]")
_device("consumes nothing", {"consumesCounters": [{}]}, "Required consumesCounters[0].counterSet", "Required consumesCounters[0].counters")
_device("consumes from a bad set", {"consumesCounters": [{**_TAKES, "counterSet": "A"}]}, "Invalid consumesCounters[0].counterSet")
_device("consumes a bad counter", {"consumesCounters": [{**_TAKES, "counters": {"a_b": {"value": 1}}}]}, "Invalid consumesCounters[0].counters")
_device(
    "consumes 33 counters",
    {"consumesCounters": [{**_TAKES, "counters": {f"c{n}": {"value": 1} for n in range(33)}}]},
    "TooMany consumesCounters[0].counters",
)

# the device's own place
_OWN: Final = {"spec.nodeName": DROP, "spec.perDeviceNodeSelection": True, "spec.devices": [{"name": "a", "nodeName": "n"}]}
_DEV: Final = ("spec", "devices", 0)
_create("device place: node name", _OWN)
_create("device place: all nodes", {**_OWN, (*_DEV, "nodeName"): DROP, (*_DEV, "allNodes"): True})
_create("device place: selector", {**_OWN, (*_DEV, "nodeName"): DROP, (*_DEV, "nodeSelector"): {"nodeSelectorTerms": [TERM]}})
_create("device place: two terms pass", {**_OWN, (*_DEV, "nodeName"): DROP, (*_DEV, "nodeSelector"): {"nodeSelectorTerms": [TERM, TERM]}})
_create(
    "device place: selector empty", {**_OWN, (*_DEV, "nodeName"): DROP, (*_DEV, "nodeSelector"): {}}, f"Required {_D}.nodeSelector.nodeSelectorTerms"
)
_create("device place: none", {**_OWN, (*_DEV, "nodeName"): DROP}, f"Required {_D}")
_create("device place: two", {**_OWN, (*_DEV, "allNodes"): True}, f"Invalid {_D}")
_create("device place: empty", {**_OWN, (*_DEV, "nodeName"): ""}, f"Invalid {_D}.nodeName", f"Required {_D}")
_create("device place: wrong", {**_OWN, (*_DEV, "nodeName"): "N"}, f"Invalid {_D}.nodeName")
_create("device place: all nodes false", {**_OWN, (*_DEV, "allNodes"): False}, f"Invalid {_D}.allNodes")
_create("per-device selection false", {"spec.perDeviceNodeSelection": False}, "Invalid spec.perDeviceNodeSelection")
for _field, _place in (("nodeName", "n"), ("allNodes", False), ("nodeSelector", {"nodeSelectorTerms": []})):
    _device(f"device place uncalled for: {_field}", {_field: _place}, "Invalid ")

# binding conditions
_BC, _BF = "bindingConditions", "bindingFailureConditions"
_device("binding conditions", {_BC: ["a", "x.io/b"], _BF: ["c"], "bindsToNode": True})
_device("binding conditions alone", {_BC: ["a"]}, f"Invalid {_BF}")
_device("binding failures alone", {_BF: ["a"]}, f"Invalid {_BC}")
_device("binding conditions overlap", {_BC: ["a", "b"], _BF: ["b"]}, f"Invalid {_BF}[0]")
_device("binding conditions repeat", {_BC: ["a", "a"], _BF: ["b", "b"]}, f"Duplicate {_BC}[1]", f"Duplicate {_BF}[1]")
_device("binding conditions wrong", {_BC: ["-"], _BF: ["", "a/b/c"]}, f"Invalid {_BC}[0]", f"Invalid {_BF}[0]", f"Invalid {_BF}[1]")
_device("four binding conditions", {_BC: list("abcd"), _BF: list("efgh")})
_device("five binding conditions", {_BC: list("abcde"), _BF: list("fghij")}, f"TooMany {_BC}", f"TooMany {_BF}")
_device("binds to node alone", {"bindsToNode": True})

# node allocatable resources
_N: Final = "nodeAllocatableResourceMappings"
_device("mapping by capacity", {_N: {"memory": {"capacityKey": "memory", "allocationMultiplier": "2"}}})
_device("mapping by default", {_N: {"cpu": {}}})
_device("mapping under kubernetes.io", {_N: {"x.kubernetes.io/a": {}}})
_device("mapping of another resource", {_N: {"example.com/a": {}}}, f"Invalid {_N}[example.com/a]")
_device("mapping to no capacity", {_N: {"cpu": {"capacityKey": "cores"}}}, f"NotFound {_N}[cpu].capacityKey")
_device("mapping to an empty key", {_N: {"cpu": {"capacityKey": ""}}}, f"Invalid {_N}[cpu].capacityKey")
_device("mapping times zero", {_N: {"cpu": {"allocationMultiplier": "0"}}}, f"Invalid {_N}[cpu].allocationMultiplier")
_device("mapping times minus one", {_N: {"cpu": {"allocationMultiplier": "-1"}}}, f"Invalid {_N}[cpu].allocationMultiplier")
