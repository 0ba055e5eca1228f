from __future__ import annotations

from typing import Any

import pytest

from dray.agent.config.additions import Additions, GenericPath, resource_of, validate_additions
from dray.api.codec import view
from dray.api.field_errors import Path, Reason

FUSE = {"name": "fuse", "path": "/dev/fuse"}
ADDRESS = "0000:05:00.0"


def _generic(**fields: Any) -> dict[str, Any]:
    return {"generic": [{**FUSE, **fields}]}


def _select(**fields: Any) -> dict[str, Any]:
    return {"select": [{"resourceName": "a.com/x", **fields}]}


def _vgpu(**fields: Any) -> dict[str, Any]:
    return {"vgpuProfiles": [fields]}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"role": "replace", "unit": "function", "domain": "example.com", "nodeLabels": {"a": "b"}},
        _generic(),
        _generic(count=50_000, preOpen=True, resourceName="example.com/fuse"),
        {"generic": [{"name": "tty", "glob": "/dev/ttyUSB*"}]},
        _select(pciAddress="0000:05:00.0"),
        _select(pciAddress="00010000:AF:1f.7"),
        _select(usbPort="1-2.3.1"),
        _select(usbSerial="A 12"),
        _select(usbPort="1-2", usbSerial="A"),
        {"select": [{"resourceName": "a.com/x", "usbPort": f"1-{port}"} for port in (1, 2)]},
        _vgpu(address=ADDRESS, profile=1414),
        _vgpu(pciVendorSelector="10DE:2330", profile="NVIDIA H200X-1-18C"),
        {"sim": {"devices": [{"name": "gpu"}], "faults": [{"device": "gpu-0"}]}},
    ],
    ids=str,
)
def test_good(document: dict[str, Any]) -> None:
    assert validate_additions(view(document, Additions), Path("dray")) == []


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ({"role": "x"}, "role", Reason.NOT_SUPPORTED),
        ({"unit": ""}, "unit", Reason.NOT_SUPPORTED),
        ({"domain": ""}, "domain", Reason.REQUIRED),
        ({"domain": "Dray"}, "domain", Reason.INVALID),
        ({"domain": "x" * 56}, "domain", Reason.TOO_LONG),
        ({"nodeLabels": {"a b": ""}}, "nodeLabels[a b]", Reason.INVALID),
        (_generic(name=""), "generic[0].name", Reason.REQUIRED),
        (_generic(name="Fuse"), "generic[0].name", Reason.INVALID),
        (_generic(count=0), "generic[0].count", Reason.INVALID),
        (_generic(count=50_001), "generic[0].count", Reason.INVALID),
        (_generic(resourceName="fuse"), "generic[0].resourceName", Reason.INVALID),
        (_generic(resourceName="devices.kubevirt.io/kvm"), "generic[0].resourceName", Reason.INVALID),
        ({"domain": "kubernetes.io", **_generic()}, "generic[0].resourceName", Reason.INVALID),
        ({"domain": "devices.kubevirt.io", **_generic(name="kvm")}, "generic[0].resourceName", Reason.INVALID),
        (_generic(path=""), "generic[0].path", Reason.REQUIRED),
        (_generic(path="dev/fuse"), "generic[0].path", Reason.INVALID),
        (_generic(path="/dev/../fuse"), "generic[0].path", Reason.INVALID),
        (_generic(path="/dev/tty*"), "generic[0].path", Reason.INVALID),
        (_generic(glob="/dev/tty*"), "generic[0].glob", Reason.FORBIDDEN),
        (_generic(path="", glob="/dev/tty"), "generic[0].glob", Reason.INVALID),
        (_generic(path="", glob="tty*"), "generic[0].glob", Reason.INVALID),
        ({"generic": [FUSE, {**FUSE, "resourceName": "a.com/x"}]}, "generic[1].name", Reason.DUPLICATE),
        (
            {"generic": [FUSE, {**FUSE, "name": "b", "resourceName": "dray.internal/fuse"}]},
            "generic[1].resourceName",
            Reason.DUPLICATE,
        ),
        (_select(), "select[0]", Reason.REQUIRED),
        (_select(pciAddress=ADDRESS, usbPort="1-1"), "select[0]", Reason.FORBIDDEN),
        (_select(pciAddress="05:00.0"), "select[0].pciAddress", Reason.INVALID),
        (_select(pciAddress="0000:05:20.0"), "select[0].pciAddress", Reason.INVALID),
        (_select(pciAddress="0000:05:00.8"), "select[0].pciAddress", Reason.INVALID),
        (_select(usbPort="usb1"), "select[0].usbPort", Reason.INVALID),
        (_select(usbPort="1-2:1.0"), "select[0].usbPort", Reason.INVALID),
        (_select(usbPort="1-0"), "select[0].usbPort", Reason.INVALID),
        (_select(usbSerial="a\nb"), "select[0].usbSerial", Reason.INVALID),
        (_select(pciAddress=ADDRESS, resourceName=""), "select[0].resourceName", Reason.REQUIRED),
        (
            {"select": [{"resourceName": "a.com/x", "pciAddress": at} for at in ("00000000:AF:00.0", "0000:af:00.0")]},
            "select[1].pciAddress",
            Reason.DUPLICATE,
        ),
        ({"select": _select(usbPort="1-1")["select"] * 2}, "select[1].usbPort", Reason.DUPLICATE),
        ({"select": _select(usbSerial="1-1")["select"] * 2}, "select[1].usbSerial", Reason.DUPLICATE),
        ({"select": _select(pciAddress=ADDRESS)["select"] * 2}, "select[1].pciAddress", Reason.DUPLICATE),
        ({"sim": {"devices": [{"name": "gpu", "count": 0}]}}, "sim.devices[0].count", Reason.INVALID),
        ({"domain": "x y", "sim": {"devices": [{"name": "gpu"}]}}, "domain", Reason.INVALID),
        ({"domain": "kubernetes.io", "sim": {"devices": [{"name": "gpu"}]}}, "sim.devices[0].resourceName", Reason.INVALID),
        (_vgpu(profile=1), "vgpuProfiles[0]", Reason.REQUIRED),
        (_vgpu(address=ADDRESS, pciVendorSelector="10de:2330", profile=1), "vgpuProfiles[0]", Reason.FORBIDDEN),
        (_vgpu(address="x", profile=1), "vgpuProfiles[0].address", Reason.INVALID),
        (_vgpu(pciVendorSelector="x", profile=1), "vgpuProfiles[0].pciVendorSelector", Reason.INVALID),
        (_vgpu(address=ADDRESS), "vgpuProfiles[0].profile", Reason.REQUIRED),
        (_vgpu(address=ADDRESS, profile=0), "vgpuProfiles[0].profile", Reason.INVALID),
        (_vgpu(address=ADDRESS, profile=10**9), "vgpuProfiles[0].profile", Reason.INVALID),
        (_vgpu(address=ADDRESS, profile="0"), "vgpuProfiles[0].profile", Reason.INVALID),
        (_vgpu(address=ADDRESS, profile="9" * 5000), "vgpuProfiles[0].profile", Reason.INVALID),
        (_vgpu(address=ADDRESS, profile=" "), "vgpuProfiles[0].profile", Reason.REQUIRED),
        (_vgpu(address=ADDRESS, profile="a\tb"), "vgpuProfiles[0].profile", Reason.INVALID),
        (
            {"vgpuProfiles": _vgpu(address=ADDRESS, profile=1)["vgpuProfiles"] * 2},
            "vgpuProfiles[1].address",
            Reason.DUPLICATE,
        ),
        (
            {"vgpuProfiles": _vgpu(pciVendorSelector="10de:0001", profile=1)["vgpuProfiles"] * 2},
            "vgpuProfiles[1].pciVendorSelector",
            Reason.DUPLICATE,
        ),
    ],
)  # fmt: skip
def test_one_fault(document: dict[str, Any], field: str, reason: Reason) -> None:
    faults = validate_additions(view(document, Additions), Path("dray"))
    assert [(fault.field, fault.reason) for fault in faults] == [(f"dray.{field}", reason)]


def test_port_and_serial_are_not_mixed_up() -> None:
    entries = [{"resourceName": "a.com/x", "usbPort": "1-1"}, {"resourceName": "a.com/x", "usbSerial": "1-1"}]
    assert validate_additions(view({"select": entries}, Additions), Path()) == []


def test_the_resource_of_a_generic_path() -> None:
    additions = Additions(domain="example.com")
    assert resource_of(GenericPath(name="fuse"), additions) == "example.com/fuse"
    assert resource_of(GenericPath(name="fuse", resource_name="a.b/c"), additions) == "a.b/c"
