"""Cases for DeviceTaintRule."""

from __future__ import annotations

from typing import Final

from dray.api.kinds import DEVICE_TAINT_RULES
from tests.api.cases.case import DROP, Document, Table


def rule_document() -> Document:
    """A taint on one device."""
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule-a"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": "zone/node-a", "device": "gpu-0"},
            "taint": {"key": "example.com/broken", "value": "fan", "effect": "NoExecute"},
        },
    }


# fmt: off
TABLE: Final = Table(DEVICE_TAINT_RULES, rule_document)
_create, _update, _status = TABLE.create, TABLE.update, TABLE.write_status
_S, _T = "spec.deviceSelector", "spec.taint"
_create("valid", {})
_create("without a selector", {"spec.deviceSelector": DROP})
_create("for all", {"spec.deviceSelector": {}})
_create("empty spec", {"spec": {}}, f"Invalid {_T}.key", f"Required {_T}.effect")
_create("driver empty", {"spec.deviceSelector.driver": ""}, f"Required {_S}.driver")
_create("driver wrong", {"spec.deviceSelector.driver": "a b"}, f"Invalid {_S}.driver")
_create("driver too long", {"spec.deviceSelector.driver": "d" * 64}, f"TooLong {_S}.driver")
_create("pool empty", {"spec.deviceSelector.pool": ""}, f"Required {_S}.pool")
_create("pool wrong", {"spec.deviceSelector.pool": "a//b"}, f"Invalid {_S}.pool")
_create("device empty", {"spec.deviceSelector.device": ""}, f"Invalid {_S}.device")
_create("device wrong", {"spec.deviceSelector.device": "a.b"}, f"Invalid {_S}.device")
_create("key missing", {"spec.taint.key": ""}, f"Invalid {_T}.key")
_create("key wrong", {"spec.taint.key": "a/b/c"}, f"Invalid {_T}.key")
_create("value wrong", {"spec.taint.value": "x" * 64}, f"Invalid {_T}.value")
_create("value missing", {"spec.taint.value": DROP})
for _effect in ("None", "NoSchedule"):
    _create(f"effect {_effect}", {"spec.taint.effect": _effect})
_create("effect missing", {"spec.taint.effect": DROP}, f"Required {_T}.effect")
_create("effect of nodes", {"spec.taint.effect": "PreferNoSchedule"}, f"NotSupported {_T}.effect")
_create(
    "all wrong",
    {"spec.deviceSelector": {"driver": "", "pool": "A", "device": "B"}, "spec.taint": {"value": "-"}},
    f"Required {_S}.driver",
    f"Invalid {_S}.pool",
    f"Invalid {_S}.device",
    f"Invalid {_T}.key",
    f"Invalid {_T}.value",
    f"Required {_T}.effect",
)
_update("nothing changes", {})
_update("everything changes", {"spec": {"taint": {"key": "other", "effect": "None"}}})
_update("becomes invalid", {"spec.taint.effect": "Other"}, f"NotSupported {_T}.effect")
_update(
    "stored effect stays", {"spec.taint.value": "v"}, old={"spec.taint.effect": "Later"}, ours_only="such a rule comes from a newer API server only"
)
_CONDITION: Final = {"type": "EvictionInProgress", "status": "False", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_status("status", {"conditions": [_CONDITION]})
_status("status empty", {}, old={"conditions": [_CONDITION]})
_status("eight conditions", {"conditions": [{**_CONDITION, "type": f"T{number}"} for number in range(8)]})
_status("nine conditions", {"conditions": [{**_CONDITION, "type": f"T{number}"} for number in range(9)]}, "TooMany status.conditions")
_status("condition twice", {"conditions": [_CONDITION] * 2}, "Duplicate status.conditions[1].type")
_status(
    "condition wrong",
    {"conditions": [{"type": "a/b/c", "status": "", "reason": ""}]},
    "Invalid status.conditions[0].type",
    "NotSupported status.conditions[0].status",
    "Required status.conditions[0].reason",
    "Required status.conditions[0].lastTransitionTime",
)
