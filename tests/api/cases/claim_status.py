"""Cases for the status of ResourceClaim."""

from __future__ import annotations

from typing import Any, Final

from dray.api.kinds import RESOURCE_CLAIMS
from tests.api.cases.case import DROP, Document, Edits, Table, edited
from tests.api.cases.claims import claim_document

TABLE: Final = Table(RESOURCE_CLAIMS, claim_document)
_SHARE: Final = "5e0c9b8a-1f2e-4d3c-8b7a-0123456789ab"
_UID: Final = "11111111-2222-3333-4444-555555555555"
_WHEN: Final = "2026-01-01T00:00:00Z"


def _result(**more: Any) -> Document:
    return {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0", **more}


def allocated() -> Document:
    """Two devices given, one pod may use them, nothing reported yet."""
    return {
        "allocation": {
            "devices": {
                "results": [_result(), _result(request="nic/fast", device="nic-0", shareID=_SHARE)],
                "config": [
                    {
                        "source": "FromClass",
                        "requests": ["gpu"],
                        "opaque": {"driver": "d", "parameters": {"a": 1}},
                    }
                ],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
                ]
            },
            "allocationTimestamp": _WHEN,
        },
        "reservedFor": [{"resource": "pods", "name": "pod-a", "uid": _UID}],
    }


def reported() -> Document:
    """The same with a report on the first device."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": _WHEN,
    }
    return {
        **allocated(),
        "devices": [
            {
                "driver": "gpu.example.com",
                "pool": "node-a",
                "device": "gpu-0",
                "conditions": [condition],
                "data": {"any": ["thing"]},
                "networkData": {
                    "interfaceName": "eth0",
                    "ips": ["10.9.8.7/24", "2001:db8::1/64"],
                    "hardwareAddress": "00:11:22:33:44:55",
                },
            }
        ],
    }


# fmt: off
_status = TABLE.write_status
_status("empty", {})
_status("allocate and reserve", allocated())
_status("allocate, reserve and report", reported())
_status("allocate nothing", {"allocation": {}})
_status("stays", allocated(), old=allocated())
_status("deallocate", {}, old=allocated())
_status("deallocate with reports", {"devices": reported()["devices"]}, old=reported())
_status("reserve without allocation", {"reservedFor": allocated()["reservedFor"]}, "Forbidden status.reservedFor")
_status("deallocate but stay reserved", {"reservedFor": allocated()["reservedFor"]}, "Forbidden status.reservedFor", old=allocated())
_status("report without allocation", {"devices": reported()["devices"]}, "Invalid status.devices[0]")
_status("another allocation", edited(allocated(), {"allocation.devices.results.0.device": "gpu-1"}), "Invalid status.allocation", old=allocated())
_status(
    "an invalid other allocation is not looked into",
    edited(allocated(), {"allocation.devices.results": [{}]}),
    "Invalid status.allocation",
    old=allocated(),
)
_status(
    "allocation with another time",
    edited(allocated(), {"allocation.allocationTimestamp": "2026-01-02T00:00:00Z"}),
    "Invalid status.allocation",
    old=allocated(),
)
_status(
    "allocation with the same time in another zone",
    edited(allocated(), {"allocation.allocationTimestamp": "2026-01-01T02:00:00+02:00"}),
    old=allocated(),
)


def _allocation(name: str, edits: Edits, *expected: str, **more: Any) -> None:
    """A new allocation with edits; expected paths are below status.allocation."""
    full = [f"{line.partition(' ')[0]} status.allocation.{line.partition(' ')[2]}" for line in expected]
    prefixed = {("allocation", *_path(key)): value for key, value in edits.items()}
    _status(f"allocation: {name}", edited(allocated(), prefixed), *full, **more)


def _path(key: str | tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(key.split(".")) if isinstance(key, str) else key


_R: Final = "devices.results[0]"
_allocation(
    "empty result", {"devices.results": [{}]}, f"Invalid {_R}.request", f"Required {_R}.driver", f"Required {_R}.pool", f"Invalid {_R}.device"
)
_allocation("for a request with alternatives", {"devices.results.0.request": "nic"})
_allocation("for no request", {"devices.results.0.request": "other"}, f"Invalid {_R}.request")
_allocation("for no subrequest", {"devices.results.0.request": "nic/other"}, f"Invalid {_R}.request")
_allocation("for three parts", {"devices.results.0.request": "nic/fast/x"}, f"Invalid {_R}.request")
_allocation("driver wrong", {"devices.results.0.driver": "a b"}, f"Invalid {_R}.driver")
_allocation("driver too long", {"devices.results.0.driver": "d" * 64}, f"TooLong {_R}.driver")
_allocation("pool wrong", {"devices.results.0.pool": "a//b"}, f"Invalid {_R}.pool")
_allocation("pool too long", {"devices.results.0.pool": "/".join(["p" * 60] * 5)}, f"TooLong {_R}.pool")
_allocation("device wrong", {"devices.results.0.device": "a.b"}, f"Invalid {_R}.device")
for _text in ("", "x", _SHARE.upper(), f"{{{_SHARE}}}", _SHARE.replace("-", ""), f"urn:uuid:{_SHARE}", _SHARE + "0"):
    _allocation(f"share id {_text!r}", {"devices.results.0.shareID": _text}, f"Invalid {_R}.shareID")
_allocation("binding conditions", {"devices.results.0.bindingConditions": ["a"], "devices.results.0.bindingFailureConditions": ["b"]})
_allocation("binding conditions alone", {"devices.results.0.bindingConditions": ["a"]}, f"Invalid {_R}.bindingFailureConditions")
_allocation(
    "five binding conditions",
    {"devices.results.0.bindingConditions": list("abcde"), "devices.results.0.bindingFailureConditions": ["x"]},
    f"TooMany {_R}.bindingConditions",
)
_allocation(
    "tolerations and consumed capacity are not looked at",
    {"devices.results.0.tolerations": [{"operator": "Near"}], "devices.results.0.consumedCapacity": {"a b": "-1"}},
)
_allocation("the same device twice passes", {"devices.results": [_result(), _result()]})
_allocation("32 results", {"devices.results": [_result()] * 32})
_allocation("33 results", {"devices.results": [_result()] * 33}, "TooMany devices.results")
_C: Final = "devices.config[0]"
_allocation("config empty", {"devices.config": [{}]}, f"Required {_C}.source", f"Required {_C}.opaque")
_allocation("config source wrong", {"devices.config.0.source": "FromNowhere"}, f"NotSupported {_C}.source")
_allocation("config for no request", {"devices.config.0.requests": ["x"]}, f"Invalid {_C}.requests[0]")
_allocation("config for one twice", {"devices.config.0.requests": ["gpu", "gpu"]}, f"Duplicate {_C}.requests[1]")
_allocation("config for 33", {"devices.config.0.requests": ["gpu"] * 33}, f"TooMany {_C}.requests")
_allocation("config parameters missing", {"devices.config.0.opaque.parameters": DROP}, f"Required {_C}.opaque.parameters")
_allocation("config parameters too large", {"devices.config.0.opaque.parameters": {"a": "x" * 10240}}, f"TooLong {_C}.opaque.parameters")
_CONFIG: Final = {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {}}}
_allocation("64 configs", {"devices.config": [_CONFIG] * 64})
_allocation("65 configs", {"devices.config": [_CONFIG] * 65}, "TooMany devices.config")
_allocation("node selector empty", {"nodeSelector": {}}, "Required nodeSelector.nodeSelectorTerms")
_allocation("node selector with two terms", {"nodeSelector": {"nodeSelectorTerms": [{}, {}]}})
_allocation(
    "node selector wrong",
    {"nodeSelector.nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "x"}]}]},
    "Invalid nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator",
)
_allocation("everywhere", {"nodeSelector": DROP})

# reservedFor
_F: Final = "status.reservedFor"


def _users(count: int) -> list[Document]:
    return [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(count)]


_status("user of another group", {**allocated(), "reservedFor": [{"apiGroup": "x.io", "resource": "r", "name": "n", "uid": "u"}]})
_status("user empty", {**allocated(), "reservedFor": [{}]}, f"Required {_F}[0].resource", f"Required {_F}[0].name", f"Required {_F}[0].uid")
_status("user twice", {**allocated(), "reservedFor": _users(1) * 2}, f"Duplicate {_F}[1]")
_status("256 users", {**allocated(), "reservedFor": _users(256)})
_status("257 users", {**allocated(), "reservedFor": _users(257)}, f"TooMany {_F}")
_status("more users", {**allocated(), "reservedFor": _users(3)}, old={**allocated(), "reservedFor": _users(2)})
_FINAL: Final = {"metadata.finalizers": ["resource.kubernetes.io/delete-protection"]}
_status(
    "more users while deleting",
    {**allocated(), "reservedFor": _users(3)},
    f"Forbidden {_F}",
    old={**allocated(), "reservedFor": _users(2)},
    spec=_FINAL,
    deleting=True,
)
_status(
    "another user while deleting",
    {**allocated(), "reservedFor": _users(2)[1:]},
    f"Forbidden {_F}",
    old={**allocated(), "reservedFor": _users(1)},
    spec=_FINAL,
    deleting=True,
)
_status(
    "fewer users while deleting", {**allocated(), "reservedFor": _users(1)}, old={**allocated(), "reservedFor": _users(2)}, spec=_FINAL, deleting=True
)
_status("allocate while deleting", {"allocation": allocated()["allocation"]}, spec=_FINAL, deleting=True)


# devices
def _report(name: str, edits: Edits, *expected: str, **more: Any) -> None:
    """A report with edits; expected paths are below status.devices[0]."""
    full = []
    for line in expected:
        reason, _, field = line.partition(" ")
        full.append(f"{reason} status.devices[0]{'.' if field else ''}{field}")
    prefixed = {("devices", 0, *_path(key)): value for key, value in edits.items()}
    _status(f"report: {name}", edited(reported(), prefixed), *full, old=allocated(), **more)


_report("as is", {})
_report("bare", {"conditions": DROP, "data": DROP, "networkData": DROP})
_report("of another device", {"device": "gpu-7"}, "Invalid ")
_report("of a share", {"device": "nic-0", "shareID": _SHARE})
_report("of a share without saying so", {"device": "nic-0"}, "Invalid ")
_report("of another share", {"shareID": _UID}, "Invalid ")
_report("of a bad share", {"shareID": "x"}, "Invalid shareID", "Invalid ")
_report("of nothing", {"driver": "", "pool": "", "device": ""}, "Required driver", "Required pool", "Invalid device", "Invalid ")
_report("of a wrong pool", {"pool": "A"}, "Invalid pool", "Invalid ")
_status("report twice", {**reported(), "devices": reported()["devices"] * 2}, "Duplicate status.devices[1]", old=allocated())
_CONDITION: Final = reported()["devices"][0]["conditions"][0]
_report("eight conditions", {"conditions": [{**_CONDITION, "type": f"T{number}"} for number in range(8)]})
_report("nine conditions", {"conditions": [{**_CONDITION, "type": f"T{number}"} for number in range(9)]}, "TooMany conditions")
_report("condition twice", {"conditions": [_CONDITION, _CONDITION]}, "Duplicate conditions[1].type")
_report(
    "condition empty",
    {"conditions": [{}]},
    "Invalid conditions[0].type",
    "NotSupported conditions[0].status",
    "Required conditions[0].lastTransitionTime",
    "Required conditions[0].reason",
)
_report(
    "condition wrong",
    {"conditions": [{**_CONDITION, "type": "a b", "status": "Maybe", "reason": "9", "observedGeneration": -1}]},
    "Invalid conditions[0].type",
    "NotSupported conditions[0].status",
    "Invalid conditions[0].reason",
    "Invalid conditions[0].observedGeneration",
)
_report(
    "condition too long",
    {"conditions": [{**_CONDITION, "reason": "a" * 1025, "message": "m" * 32769}]},
    "TooLong conditions[0].reason",
    "TooLong conditions[0].message",
)
for _text in ("A,B:c_", "a"):
    _report(f"condition reason {_text!r}", {"conditions.0.reason": _text})
for _text in ("A,", "_a", "a b", "a\n"):
    _report(f"condition reason {_text!r}", {"conditions.0.reason": _text}, "Invalid conditions[0].reason")
_report("data no object", {"data": [1]}, "Invalid data")
_report("data null", {"data": None})
_report("data of 10 KiB", {"data": {"a": "x" * (10 * 1024 - 8)}})
_report("data over 10 KiB", {"data": {"a": "x" * (10 * 1024 - 7)}}, "TooLong data")
_report("interface name of 256", {"networkData.interfaceName": "e" * 256})
_report("interface name of 257", {"networkData.interfaceName": "e" * 257}, "TooLong networkData.interfaceName")
_report("hardware address of 129", {"networkData.hardwareAddress": "h" * 129}, "TooLong networkData.hardwareAddress")
_report("16 addresses", {"networkData.ips": [f"10.0.0.{number}/8" for number in range(16)]})
_report("17 addresses", {"networkData.ips": [f"10.0.0.{number}/8" for number in range(17)]}, "TooMany networkData.ips")
_report("address twice", {"networkData.ips": ["10.0.0.1/8", "10.0.0.1/8"]}, "Duplicate networkData.ips[1]")
for _text in (
    "",
    "10.0.0.1",
    "10.0.0.1/33",
    "10.0.0.01/8",
    "10.0.0.1/08",
    "2001:DB8::1/64",
    "2001:db8:0::1/64",
    "::ffff:1.2.3.4/120",
    "fe80::1%eth0/64",
    "10.0.0.1/255.0.0.0",
    "10.0.0.1/ 8",
    "x/8",
    "::1/129",
    "1:2:3:4:5:6:7:0/64/1",
):
    _report(f"address {_text!r}", {"networkData.ips": [_text]}, "Invalid networkData.ips[0]")
for _text in ("0.0.0.0/0", "::/0", "::1/128", "fe80::1/10", "1:0:0:2::1/64", "1:2:3:4:5:6:7:0/64"):
    _report(f"address {_text!r}", {"networkData.ips": [_text]})
