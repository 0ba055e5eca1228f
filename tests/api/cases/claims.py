"""Cases for ResourceClaim, its template, and DeviceClass."""

from __future__ import annotations

from typing import Any, Final

from dray.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.api.cases.case import DROP, NAMESPACE, Case, Document, Edits, Table, named

_CEL: Final = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
_OPAQUE: Final = {"driver": "gpu.example.com", "parameters": {"sharing": "none"}}
_EXACT: Final = {"deviceClassName": "gpu.example.com"}


def claim_document() -> Document:
    """A plain request, a request with alternatives, a constraint and configuration."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim-a", "namespace": NAMESPACE},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "selectors": [_CEL]}},
                    {
                        "name": "nic",
                        "firstAvailable": [
                            {"name": "fast", "deviceClassName": "nic.example.com", "count": 2},
                            {"name": "slow", "deviceClassName": "nic.example.com", "allocationMode": "All"},
                        ],
                    },
                ],
                "constraints": [{"requests": ["gpu", "nic/fast"], "matchAttribute": "example.com/numa"}],
                "config": [{"requests": ["gpu"], "opaque": _OPAQUE}],
            }
        },
    }


# fmt: off
TABLE: Final = Table(RESOURCE_CLAIMS, claim_document)
TEMPLATES: Final[list[Case]] = []
_DEVICES: Final = ("spec", "devices")


def template_of(claim: Document) -> Document:
    """A template that makes such claims."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": claim["metadata"], "spec": {"spec": claim["spec"]}}


def template_document() -> Document:
    """A template with labels for its claims."""
    document = template_of(claim_document())
    document["spec"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    return document


TEMPLATE_TABLE: Final = Table(RESOURCE_CLAIM_TEMPLATES, template_document)


def _claim(name: str, edits: Edits, *expected: str) -> None:
    """Edits below spec.devices, with expected paths below it, for a claim and for a template alike."""
    below = {(*_DEVICES, *_path(key)): value for key, value in edits.items()}
    TABLE.create(name, below, *(_at("spec.devices", line) for line in expected))
    base = template_of(TABLE.cases[-1].new)
    TEMPLATE_TABLE.create(name, {}, *(_at("spec.spec.devices", line) for line in expected), base=base)


def _at(path: str, expected: str) -> str:
    reason, _, field = expected.partition(" ")
    return f"{reason} {path}.{field}"


def _path(key: str | tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(key.split(".")) if isinstance(key, str) else key


_claim("valid", {})
_claim("no requests at all", {"requests": DROP, "constraints": DROP, "config": DROP})
TABLE.create("empty spec", {"spec": {}})
TABLE.create("no spec", {"spec": DROP})

# requests
_PLAIN: Final = {"constraints": DROP, "config": DROP}
_claim("32 requests", {**_PLAIN, "requests": named(32, exactly=_EXACT)})
_claim("33 requests", {**_PLAIN, "requests": named(33, exactly=_EXACT)}, "TooMany requests")
_claim("request twice", {"requests.1.name": "gpu", "constraints": DROP}, "Duplicate requests[1]")
_claim("request without a name", {**_PLAIN, "requests.0.name": ""}, "Invalid requests[0].name")
_claim("request name wrong", {**_PLAIN, "requests.0.name": "a/b"}, "Invalid requests[0].name")
_claim("request of no kind", {"requests.0.exactly": DROP}, "Required requests[0]")
_claim("request with empty alternatives", {"requests.0.exactly": DROP, "requests.0.firstAvailable": []}, "Required requests[0]")
_claim("request of both kinds", {"requests.0.firstAvailable": named(1, deviceClassName="a")}, "Invalid requests[0]")
_claim("request of both kinds is not looked into", {"requests.0.firstAvailable": [{}]}, "Invalid requests[0]")
_claim("eight alternatives", {**_PLAIN, "requests.1.firstAvailable": named(8, deviceClassName="a")})
_claim("nine alternatives", {**_PLAIN, "requests.1.firstAvailable": named(9, deviceClassName="a")}, "TooMany requests[1].firstAvailable")
_claim("alternative twice", {"requests.1.firstAvailable.1.name": "fast"}, "Duplicate requests[1].firstAvailable[1]")
_claim("alternative without a name", {"requests.1.firstAvailable.1.name": ""}, "Invalid requests[1].firstAvailable[1].name")

# what both kinds of request share
for _where, _field in (("requests.0.exactly", "requests[0].exactly"), ("requests.1.firstAvailable.0", "requests[1].firstAvailable[0]")):
    _w = tuple(_where.split("."))

    def _both(name: str, edits: dict[str, Any], *expected: str, at: Any = _w, field: str = _field) -> None:
        below = {(*at, key): value for key, value in edits.items()}
        _claim(f"{field}: {name}", below, *(_at(field, line) for line in expected))

    _both("class missing", {"deviceClassName": DROP}, "Required deviceClassName")
    _both("class wrong", {"deviceClassName": "Gpu"}, "Invalid deviceClassName")
    _both("class too long", {"deviceClassName": "g" * 254}, "Invalid deviceClassName")
    _both("mode unknown", {"allocationMode": "Some"}, "NotSupported allocationMode")
    _both("all", {"allocationMode": "All", "count": 0})
    _both("all with a count", {"allocationMode": "All", "count": 1}, "Invalid count")
    _both("all with a negative count", {"allocationMode": "All", "count": -1}, "Invalid count")
    _both("count zero is defaulted", {"count": 0})
    _both("count negative", {"count": -1}, "Invalid count")
    _both("count huge", {"count": 2**62})
    _both("no selectors", {"selectors": []})
    _both("selector of no kind", {"selectors": [{}]}, "Required selectors[0].cel")
    _both("selector empty", {"selectors": [{"cel": {"expression": ""}}]}, "Invalid selectors[0].cel.expression")
    _both("32 selectors", {"selectors": [_CEL] * 32})
    _both("33 selectors", {"selectors": [_CEL] * 33}, "TooMany selectors")
    _both("selector of 10 KiB", {"selectors": [{"cel": {"expression": "true" + " " * (10 * 1024 - 4)}}]})
    _both("selector over 10 KiB", {"selectors": [{"cel": {"expression": "true" + " " * (10 * 1024 - 3)}}]}, "TooLong selectors[0].cel.expression")
    _both(
        "tolerations",
        {
            "tolerations": [
                {},
                {"operator": "Exists"},
                {"key": "a", "value": "b", "effect": "None"},
                {"key": "x.io/a", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": -5},
            ]
        },
    )
    _both("17 tolerations pass", {"tolerations": [{"operator": "Exists"}] * 17})
    _both("toleration key wrong", {"tolerations": [{"key": "a b"}]}, "Invalid tolerations[0].key")
    _both("toleration operator wrong", {"tolerations": [{"key": "a", "operator": "Near"}]}, "NotSupported tolerations[0].operator")
    _both("toleration exists with a value", {"tolerations": [{"key": "a", "operator": "Exists", "value": "v"}]}, "Invalid tolerations[0].value")
    _both("toleration value wrong", {"tolerations": [{"key": "a", "value": "-"}]}, "Invalid tolerations[0].value")
    _both("toleration effect wrong", {"tolerations": [{"key": "a", "effect": "PreferNoSchedule"}]}, "NotSupported tolerations[0].effect")
    _both("capacity is not looked at", {"capacity": {"requests": {"a b/c": "-5", "memory": "10Gi"}}})
    _both("capacity empty", {"capacity": {}})

# constraints
_claim("32 constraints", {"constraints": [{"matchAttribute": "a/b"}] * 32})
_claim("33 constraints", {"constraints": [{"matchAttribute": "a/b"}] * 33}, "TooMany constraints")
_claim("constraint of no kind", {"constraints.0.matchAttribute": DROP}, "Required constraints[0]")
_claim("constraint distinct", {"constraints": [{"distinctAttribute": "a/b"}]})
_claim("constraint of both kinds passes", {"constraints.0.distinctAttribute": "not a name"})
for _kind in ("matchAttribute", "distinctAttribute"):
    for _text in ("model", "", "a/", "/b", "a b/c", "a/b-c"):
        _claim(f"{_kind} {_text!r}", {"constraints": [{_kind: _text}]}, f"Invalid constraints[0].{_kind}")
    _claim(f"{_kind} with a long id", {"constraints": [{_kind: "a/" + "b" * 33}]}, f"TooLong constraints[0].{_kind}")
    _claim(f"{_kind} with two slashes passes", {"constraints": [{_kind: "a/b/c d"}]})
_R: Final = "constraints[0].requests"
_claim("constraint on all", {"constraints.0.requests": []})
_claim("constraint on no request", {"constraints.0.requests": ["other"]}, f"Invalid {_R}[0]")
_claim("constraint on no subrequest", {"constraints.0.requests": ["nic/other"]}, f"Invalid {_R}[0]")
_claim("constraint on the subrequest of a plain request", {"constraints.0.requests": ["gpu/fast"]}, f"Invalid {_R}[0]")
_claim("constraint on three parts", {"constraints.0.requests": ["a/b/c"]}, f"Invalid {_R}[0]")
_claim("constraint on an empty name", {"constraints.0.requests": [""]}, f"Invalid {_R}[0]")
_claim("constraint twice on one", {"constraints.0.requests": ["gpu", "gpu"]}, f"Duplicate {_R}[1]")
_claim("constraint on 33", {"constraints.0.requests": ["gpu"] * 33}, f"TooMany {_R}")

# config
_claim("32 configs", {"config": [{"opaque": _OPAQUE}] * 32})
_claim("33 configs", {"config": [{"opaque": _OPAQUE}] * 33}, "TooMany config")
_claim("config of no kind", {"config.0.opaque": DROP}, "Required config[0].opaque")
_claim("config driver missing", {"config.0.opaque.driver": ""}, "Required config[0].opaque.driver")
_claim("config driver wrong", {"config.0.opaque.driver": "_" * 64}, "Invalid config[0].opaque.driver", "TooLong config[0].opaque.driver")
_claim("config without parameters", {"config.0.opaque.parameters": DROP}, "Required config[0].opaque.parameters")
_claim("config parameters null", {"config.0.opaque.parameters": None}, "Required config[0].opaque.parameters")
_claim("config parameters empty", {"config.0.opaque.parameters": {}})
_NO_OBJECTS: Final[tuple[Any, ...]] = ([], "text", 5, True)
for _value in _NO_OBJECTS:
    _claim(f"config parameters {_value!r}", {"config.0.opaque.parameters": _value}, "Invalid config[0].opaque.parameters")
_claim("config parameters of 10 KiB", {"config.0.opaque.parameters": {"a": "x" * (10 * 1024 - 8)}})
_claim("config parameters over 10 KiB", {"config.0.opaque.parameters": {"a": "x" * (10 * 1024 - 7)}}, "TooLong config[0].opaque.parameters")
_claim("config for no request", {"config.0.requests": ["other"]}, "Invalid config[0].requests[0]")
_claim("config twice for one", {"config.0.requests": ["nic", "nic"]}, "Duplicate config[0].requests[1]")
_claim("config for 33", {"config.0.requests": ["gpu"] * 33}, "TooMany config[0].requests")
_claim(
    "many faults at once",
    {"requests.0.name": "A", "requests.1.firstAvailable.0.count": -3, "config.0.opaque.driver": ""},
    "Invalid requests[0].name",
    "Invalid requests[1].firstAvailable[0].count",
    "Invalid constraints[0].requests[0]",
    "Invalid config[0].requests[0]",
    "Required config[0].opaque.driver",
)

# update
TABLE.update("nothing changes", {})
TABLE.update("labels change", {"metadata.labels": {"a": "b"}})
TABLE.update("spec changes", {"spec.devices.requests.0.exactly.count": 2}, "Invalid spec")
TABLE.update("spec becomes invalid", {"spec.devices.requests.0.exactly.count": -2}, "Invalid spec")
TABLE.update("parameters change", {"spec.devices.config.0.opaque.parameters": {"sharing": "time"}}, "Invalid spec")
TABLE.update(
    "a parameter changes its type",
    {"spec.devices.config.0.opaque.parameters": {"n": True}},
    "Invalid spec",
    old={"spec.devices.config.0.opaque.parameters": {"n": 1}},
)
TABLE.update(
    "a capacity is written otherwise",
    {"spec.devices.requests.0.exactly.capacity": {"requests": {"m": "1024Mi"}}},
    old={"spec.devices.requests.0.exactly.capacity": {"requests": {"m": "1Gi"}}},
)
TABLE.update("defaults are written out", {"spec.devices.requests.0.exactly.count": 1, "spec.devices.requests.0.exactly.allocationMode": "ExactCount"})
TEMPLATE_TABLE.update("nothing changes", {})
TEMPLATE_TABLE.update("own labels change", {"metadata.labels": {"a": "b"}})
TEMPLATE_TABLE.update("handed-down labels change", {"spec.metadata.labels": {"a": "c"}}, "Invalid spec")
TEMPLATE_TABLE.update(
    "spec becomes invalid", {"spec.spec.devices.requests.0.exactly.count": -2}, "Invalid spec", "Invalid spec.spec.devices.requests[0].exactly.count"
)

# what a template hands down
TEMPLATE_TABLE.create("template: valid", {})
TEMPLATE_TABLE.create("template: label wrong", {"spec.metadata.labels": {"a b": "-"}}, "Invalid spec.metadata.labels")
TEMPLATE_TABLE.create("template: annotation wrong", {"spec.metadata.annotations": {"a b": "-"}}, "Invalid spec.metadata.annotations")
for _key, _value in (
    ("name", "n"),
    ("generateName", "n"),
    ("namespace", NAMESPACE),
    ("finalizers", ["a.io/b"]),
    ("generation", 3),
    ("resourceVersion", "1"),
    ("deletionTimestamp", "2026-01-01T00:00:00Z"),
):
    TEMPLATE_TABLE.create(f"template: {_key} cannot be handed down", {f"spec.metadata.{_key}": _value}, f"Forbidden spec.metadata.{_key}")
TEMPLATE_TABLE.create("template: uid cannot be handed down", {"spec.metadata.uid": "u"}, "Forbidden spec.metadata.uID")


def class_document() -> Document:
    """A class with a selector, configuration and an extended resource."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.example.com"},
        "spec": {"selectors": [_CEL], "config": [{"opaque": _OPAQUE}], "extendedResourceName": "example.com/gpu"},
    }


CLASS_TABLE: Final = Table(DEVICE_CLASSES, class_document)
_class = CLASS_TABLE.create
_class("valid", {})
_class("empty spec", {"spec": {}})
_class("32 selectors", {"spec.selectors": [_CEL] * 32})
_class("33 selectors", {"spec.selectors": [_CEL] * 33}, "TooMany spec.selectors")
_class("selector of no kind", {"spec.selectors": [{}]}, "Required spec.selectors[0].cel")
_class("selector empty", {"spec.selectors.0.cel.expression": ""}, "Invalid spec.selectors[0].cel.expression")
_class("33 configs", {"spec.config": [{"opaque": _OPAQUE}] * 33}, "TooMany spec.config")
_class("config of no kind", {"spec.config": [{}]}, "Required spec.config[0].opaque")
_class("config driver wrong", {"spec.config.0.opaque.driver": "a b"}, "Invalid spec.config[0].opaque.driver")
_class("config parameters wrong", {"spec.config.0.opaque.parameters": [1]}, "Invalid spec.config[0].opaque.parameters")
for _name in ("gpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.example.com/gpu", "example.com/", "", "a/b/c", "a.b/" + "c" * 64):
    _class(f"extended resource {_name!r}", {"spec.extendedResourceName": _name}, "Invalid spec.extendedResourceName")
_class("name wrong", {"metadata.name": "Gpu"}, "Invalid metadata.name")
CLASS_TABLE.update("nothing changes", {})
CLASS_TABLE.update("everything changes", {"spec.selectors": [], "spec.config": [], "spec.extendedResourceName": "example.com/other"})
CLASS_TABLE.update(
    "becomes invalid",
    {"spec.selectors": [{}], "spec.extendedResourceName": "x"},
    "Required spec.selectors[0].cel",
    "Invalid spec.extendedResourceName",
)
_LARGE: Final = {"spec.config.0.opaque.parameters": {"a": "x" * (10 * 1024)}}
CLASS_TABLE.update(
    "stored configuration stays large", {"spec.extendedResourceName": DROP}, old=_LARGE, ours_only="such a class comes from before 1.32"
)
CLASS_TABLE.update(
    "changed configuration is measured",
    {"spec.config.0.opaque.driver": "b"},
    "TooLong spec.config[0].opaque.parameters",
    old=_LARGE,
    ours_only="such a class comes from before 1.32",
)
