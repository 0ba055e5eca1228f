from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.field_errors import Path, Reason
from dray.drivers.sim.config import SimConfig
from dray.drivers.sim.validation import validate_sim

GPU = {"name": "gpu", "count": 8, "resourceName": "a.com/gpu"}


def entry(**fields: Any) -> dict[str, Any]:
    return {"devices": [{**GPU, **fields}]}


def start(**fields: Any) -> dict[str, Any]:
    return entry(preStart={"action": "reset", **fields})


def fault(**fields: Any) -> dict[str, Any]:
    return {"devices": [GPU], "faults": [{"device": "gpu-3", **fields}]}


@pytest.mark.parametrize(
    "document",
    [
        {},
        entry(),
        entry(shape="nic", shares=4, count=12_500, node="/dev/zero"),
        entry(shape="usb", numaNodes=1, pcieRoots=2),
        entry(numaNodes=0, pcieRoots=3),
        entry(numaNodes=2),
        entry(numaNodes=0, pcieRoots=0),
        entry(attributes={"model": "H200", "cores": 7, "ecc": True}),
        start(),
        start(seconds=0.5, device="gpu-7", times=2),
        start(action="hang", times=1),
        start(action="fail", seconds=1),
        fault(),
        fault(afterSeconds=5, forSeconds=10, everySeconds=60, health="Unhealthy", reason="XID 79"),
        fault(forSeconds=0.1, everySeconds=0.2),
        fault(whileFile="/run/x", reason="unplugged"),
        fault(whileFile="/run/x", gone=True),
        fault(gone=True, afterSeconds=0),
        {"devices": [GPU, {**GPU, "name": "big", "attributes": {"model": "B200"}}]},
    ],
    ids=str,
)
def test_good(document: dict[str, Any]) -> None:
    assert validate_sim(view(document, SimConfig), Path("sim")) == []


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        (entry(name=""), "devices[0].name", Reason.REQUIRED),
        (entry(name="Gpu"), "devices[0].name", Reason.INVALID),
        (entry(name="x" * 41), "devices[0].name", Reason.TOO_LONG),
        (entry(name="gpu-0"), "devices[0].name", Reason.INVALID),
        (entry(resourceName=""), "devices[0].resourceName", Reason.REQUIRED),
        (entry(resourceName="gpu"), "devices[0].resourceName", Reason.INVALID),
        (entry(resourceName="devices.kubevirt.io/kvm"), "devices[0].resourceName", Reason.INVALID),
        (entry(shape="fpga"), "devices[0].shape", Reason.NOT_SUPPORTED),
        (entry(count=0), "devices[0].count", Reason.INVALID),
        (entry(count=50_001), "devices[0].count", Reason.INVALID),
        (entry(shares=0), "devices[0].shares", Reason.INVALID),
        (entry(count=50_000, shares=50_001), "devices[0].shares", Reason.INVALID),
        (entry(count=8, shares=6_251), "devices[0].count", Reason.INVALID),
        ({"devices": [{**GPU, "count": 30_000}, {**GPU, "name": "b", "count": 30_000}]}, "devices[1].count", Reason.INVALID),
        ({"devices": [GPU, {**GPU, "resourceName": "a.com/x"}]}, "devices[1].name", Reason.DUPLICATE),
        (entry(numaNodes=-1), "devices[0].numaNodes", Reason.INVALID),
        (entry(numaNodes=257), "devices[0].numaNodes", Reason.INVALID),
        (entry(pcieRoots=257), "devices[0].pcieRoots", Reason.INVALID),
        (entry(numaNodes=2, pcieRoots=3), "devices[0].pcieRoots", Reason.INVALID),
        (entry(attributes={"a b": 1}), "devices[0].attributes[a b]", Reason.INVALID),
        (entry(attributes={"a": "x" * 65}), "devices[0].attributes[a]", Reason.TOO_LONG),
        (entry(attributes={"a": "x\ny"}), "devices[0].attributes[a]", Reason.INVALID),
        (entry(attributes={f"a{n}": n for n in range(17)}), "devices[0].attributes", Reason.TOO_MANY),
        (entry(node="null"), "devices[0].node", Reason.INVALID),
        (entry(node=""), "devices[0].node", Reason.REQUIRED),
        (start(action=""), "devices[0].preStart.action", Reason.REQUIRED),
        (start(action="restart"), "devices[0].preStart.action", Reason.NOT_SUPPORTED),
        (start(seconds=-1), "devices[0].preStart.seconds", Reason.INVALID),
        (start(seconds=float("nan")), "devices[0].preStart.seconds", Reason.INVALID),
        (start(action="hang", seconds=1), "devices[0].preStart.seconds", Reason.FORBIDDEN),
        (start(device="gpu-8"), "devices[0].preStart.device", Reason.NOT_FOUND),
        (start(device="gpu"), "devices[0].preStart.device", Reason.NOT_FOUND),
        (start(device="gpu-03"), "devices[0].preStart.device", Reason.NOT_FOUND),
        (start(device="gpu-²"), "devices[0].preStart.device", Reason.NOT_FOUND),
        (start(device="gpu-" + "9" * 5000), "devices[0].preStart.device", Reason.NOT_FOUND),
        (start(times=0), "devices[0].preStart.times", Reason.INVALID),
        (fault(device=""), "faults[0].device", Reason.REQUIRED),
        (fault(device="gpu-8"), "faults[0].device", Reason.NOT_FOUND),
        ({"faults": [{"device": "gpu-0"}]}, "faults[0].device", Reason.NOT_FOUND),
        (fault(afterSeconds=-1), "faults[0].afterSeconds", Reason.INVALID),
        (fault(afterSeconds=float("inf")), "faults[0].afterSeconds", Reason.INVALID),
        (fault(forSeconds=0), "faults[0].forSeconds", Reason.INVALID),
        (fault(everySeconds=60), "faults[0].forSeconds", Reason.REQUIRED),
        (fault(forSeconds=60, everySeconds=60), "faults[0].everySeconds", Reason.INVALID),
        (fault(forSeconds=60, everySeconds=0.01), "faults[0].everySeconds", Reason.INVALID),
        (fault(whileFile="run/x"), "faults[0].whileFile", Reason.INVALID),
        (fault(whileFile="/run/x", afterSeconds=0), "faults[0].afterSeconds", Reason.FORBIDDEN),
        (fault(whileFile="/run/x", forSeconds=0), "faults[0].forSeconds", Reason.FORBIDDEN),
        (fault(health="Healthy"), "faults[0].health", Reason.NOT_SUPPORTED),
        (fault(health="Unhealthy", gone=True), "faults[0].health", Reason.FORBIDDEN),
        (fault(reason="XID 79", gone=True), "faults[0].reason", Reason.FORBIDDEN),
        (fault(reason="a\nb"), "faults[0].reason", Reason.INVALID),
        (fault(reason="x" * 201), "faults[0].reason", Reason.TOO_LONG),
    ],
)  # fmt: skip
def test_one_fault(document: dict[str, Any], field: str, reason: Reason) -> None:
    faults = validate_sim(view(document, SimConfig), Path("sim"))
    assert [(fault.field, fault.reason) for fault in faults] == [(f"sim.{field}", reason)]
    assert len(str(faults[0]).splitlines()) == 1


def test_a_domain_names_what_has_no_name() -> None:
    config = view({"devices": [{"name": "gpu"}]}, SimConfig)
    assert validate_sim(config, Path(), "example.com") == []
    assert [fault.field for fault in validate_sim(config, Path(), "kubernetes.io")] == [
        "devices[0].resourceName"
    ]
    assert validate_sim(config, Path(), "not a domain") == [], "that is told where the domain stands"


def test_a_wrong_id_is_answered_with_the_right_ones() -> None:
    (fault_found,) = validate_sim(view(fault(device="gpu-8"), SimConfig), Path())
    assert "the ids are gpu-0 to gpu-7" in str(fault_found)
