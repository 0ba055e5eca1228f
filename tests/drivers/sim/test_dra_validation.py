from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.field_errors import Path, Reason
from dray.drivers.sim.config import SimConfig
from dray.drivers.sim.validation import validate_sim

GPU = {"name": "gpu", "count": 8, "resourceName": "a.com/gpu"}
SMALL = {"profile": "1g", "count": 7, "memory": "10Gi"}
TAINT = {"key": "a.com/ecc", "value": "double-bit", "effect": "NoExecute"}


def entry(**fields: Any) -> dict[str, Any]:
    return {"devices": [{**GPU, **fields}]}


def cut(*partitions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return entry(partitions=list(partitions), **fields)


def shared(**fields: Any) -> dict[str, Any]:
    return entry(shared={"memory": fields})


def fault(**fields: Any) -> dict[str, Any]:
    return {"devices": [GPU], "faults": [{"device": "gpu-3", **fields}]}


@pytest.mark.parametrize(
    "document",
    [
        entry(capacity={"memory": "141Gi", "cores": 132}),
        entry(shape="nic", capacity={"bandwidth": "100G"}),
        entry(versions={"driverVersion": "550.90.7", "firmware": "1.2.3-rc.1"}),
        shared(default="10Gi"),
        shared(default="10Gi", step="1Gi"),
        shared(default="10Gi", min="2Gi", max="40Gi", step="2Gi"),
        shared(default="10Gi", max="40Gi", min="1Gi"),
        entry(shares=4, shared={"memory": {"default": "10Gi", "step": "1Gi"}}),
        cut(SMALL),
        cut(SMALL, {"profile": "3g", "count": 2, "memory": "40Gi"}),
        cut({"profile": "all", "memory": "80Gi"}),
        cut({"profile": "x" * 12, "count": 32, "memory": "2.5Gi"}),
        cut({"profile": "1x", "count": 2, "memory": "1Gi"}, shape="nic", capacity={"memory": "2Gi"}),
        cut(SMALL, attributes={"memory": "70Gi"}),
        fault(taints=[TAINT]),
        fault(taints=[TAINT], health="Unhealthy", reason="ECC"),
        fault(taints=[{"key": "a", "effect": "None"}], whileFile="/run/x"),
        {**cut(SMALL), "faults": [{"device": "gpu-7-1g-6"}]},
        {"devices": [{**GPU, "partitions": [SMALL]}, {**GPU, "name": "gpu-9-1g"}]},
        entry(attributes={f"a{n}": n for n in range(16)}, capacity={"a": 1, "b": 2}),
    ],
    ids=str,
)
def test_good(document: dict[str, Any]) -> None:
    assert validate_sim(view(document, SimConfig), Path("sim")) == []


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        (entry(capacity={"memory": 0}), "devices[0].capacity[memory]", Reason.INVALID),
        (entry(capacity={"memory": "-1Gi"}), "devices[0].capacity[memory]", Reason.INVALID),
        (entry(capacity={"memory": "1e30"}), "devices[0].capacity[memory]", Reason.INVALID),
        (entry(capacity={"a-b": 1}), "devices[0].capacity[a-b]", Reason.INVALID),
        (entry(capacity={"shares": 1}), "devices[0].capacity[shares]", Reason.FORBIDDEN),
        (entry(capacity={f"c{n}": 1 for n in range(9)}), "devices[0].capacity", Reason.TOO_MANY),
        (entry(versions={"driverVersion": "550.90"}), "devices[0].versions[driverVersion]", Reason.INVALID),
        (entry(versions={"driverVersion": f"1.0.0-{'x' * 60}"}), "devices[0].versions[driverVersion]", Reason.TOO_LONG),
        (entry(versions={"a b": "1.0.0"}), "devices[0].versions[a b]", Reason.INVALID),
        (entry(versions={"model": "1.0.0"}), "devices[0].versions[model]", Reason.FORBIDDEN),
        (entry(versions={f"v{n}": "1.0.0" for n in range(9)}), "devices[0].versions", Reason.TOO_MANY),
        (entry(attributes={f"a{n}": n for n in range(16)}, capacity={f"c{n}": 1 for n in range(8)}), "devices[0].attributes", Reason.TOO_MANY),
        (entry(shared={"cores": {"default": 1}}), "devices[0].shared[cores]", Reason.NOT_FOUND),
        (entry(count=700, shared={"memory": {"default": "1Gi"}}), "devices[0].count", Reason.INVALID),
        (shared(step="1Gi"), "devices[0].shared[memory].default", Reason.REQUIRED),
        (shared(default="0"), "devices[0].shared[memory].default", Reason.INVALID),
        (shared(default="81Gi"), "devices[0].shared[memory].default", Reason.INVALID),
        (shared(default="10Gi", step="0"), "devices[0].shared[memory].step", Reason.INVALID),
        (shared(default="10Gi", step="3Gi"), "devices[0].shared[memory].step", Reason.INVALID),
        (shared(default="10Gi", min="1Gi", max="81Gi"), "devices[0].shared[memory].max", Reason.INVALID),
        (shared(default="1Gi", min="2Gi"), "devices[0].shared[memory].min", Reason.INVALID),
        (shared(default="1Gi", max="2Gi"), "devices[0].shared[memory].min", Reason.REQUIRED),
        (cut({**SMALL, "profile": ""}), "devices[0].partitions[0].profile", Reason.REQUIRED),
        (cut({**SMALL, "profile": "1g.10gb"}), "devices[0].partitions[0].profile", Reason.INVALID),
        (cut({**SMALL, "profile": "x" * 13}), "devices[0].partitions[0].profile", Reason.TOO_LONG),
        (cut({**SMALL, "count": 1}, SMALL), "devices[0].partitions[1].profile", Reason.DUPLICATE),
        (cut({**SMALL, "count": 0}), "devices[0].partitions[0].count", Reason.INVALID),
        (cut({**SMALL, "count": 9}), "devices[0].partitions[0].count", Reason.INVALID),
        (cut({"profile": "1g"}), "devices[0].partitions[0].memory", Reason.REQUIRED),
        (cut({**SMALL, "memory": "0"}), "devices[0].partitions[0].memory", Reason.INVALID),
        (cut(SMALL, shape="nic"), "devices[0].partitions[0].memory", Reason.INVALID),
        (cut({"profile": "a", "memory": "2Gi"}), "devices[0].partitions", Reason.INVALID),
        (cut(*({"profile": f"p{n}", "memory": "10Gi"} for n in range(9))), "devices[0].partitions", Reason.TOO_MANY),
        (cut({**SMALL, "count": 8}, count=6_000), "devices[0].partitions", Reason.INVALID),
        (cut(SMALL, shares=2), "devices[0].shares", Reason.FORBIDDEN),
        (cut(SMALL, shared={"memory": {"default": "1Gi"}}), "devices[0].shared", Reason.FORBIDDEN),
        (cut(SMALL, resourceName=f"a.com/{'x' * 62}"), "devices[0].partitions[0].profile", Reason.INVALID),
        ({"devices": [{**GPU, "partitions": [SMALL]}, {**GPU, "name": "gpu-7-1g", "resourceName": "a.com/x"}]}, "devices[1].name", Reason.DUPLICATE),
        ({"devices": [{**GPU, "partitions": [SMALL]}, {**GPU, "name": "b", "resourceName": "a.com/gpu-1g"}]}, "devices[0].partitions[0].profile", Reason.DUPLICATE),
        ({**cut(SMALL), "faults": [{"device": "gpu-7-1g-7"}]}, "faults[0].device", Reason.NOT_FOUND),
        ({**cut(SMALL), "faults": [{"device": "gpu-8-1g-0"}]}, "faults[0].device", Reason.NOT_FOUND),
        ({**cut(SMALL), "faults": [{"device": "gpu-0-2g-0"}]}, "faults[0].device", Reason.NOT_FOUND),
        (fault(taints=[{**TAINT, "effect": ""}]), "faults[0].taints[0].effect", Reason.REQUIRED),
        (fault(taints=[{**TAINT, "effect": "Evict"}]), "faults[0].taints[0].effect", Reason.NOT_SUPPORTED),
        (fault(taints=[{**TAINT, "key": "a b"}]), "faults[0].taints[0].key", Reason.INVALID),
        (fault(taints=[{**TAINT, "value": "a b"}]), "faults[0].taints[0].value", Reason.INVALID),
        (fault(taints=[TAINT] * 5), "faults[0].taints", Reason.TOO_MANY),
        (fault(taints=[TAINT], gone=True), "faults[0].taints", Reason.FORBIDDEN),
        (fault(taints=[TAINT], reason="ECC"), "faults[0].reason", Reason.FORBIDDEN),
    ],
)  # fmt: skip
def test_one_fault(document: dict[str, Any], field: str, reason: Reason) -> None:
    faults = validate_sim(view(document, SimConfig), Path("sim"))
    assert [(fault.field, fault.reason) for fault in faults] == [(f"sim.{field}", reason)]
    assert len(str(faults[0]).splitlines()) == 1
    assert len(str(faults[0])) < 400


def test_a_domain_names_partitions_too() -> None:
    config = view({"devices": [{"name": "gpu", "partitions": [SMALL]}]}, SimConfig)
    assert validate_sim(config, Path(), "example.com") == []
    assert validate_sim(config, Path(), "not a domain") == [], "that is told where the domain stands"
