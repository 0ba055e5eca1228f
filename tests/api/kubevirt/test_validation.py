from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.field_errors import Path, Reason
from dray.api.kubevirt.types import Configuration
from dray.api.kubevirt.validation import validate_configuration

OK = "example.com/x"


def _pci(selector: str = "10de:1eb8", resource: str = OK) -> dict[str, Any]:
    return {"permittedHostDevices": {"pciHostDevices": [{"pciVendorSelector": selector, "resourceName": resource}]}}  # fmt: skip


def _mdev(selector: str, resource: str = OK) -> dict[str, Any]:
    return {"permittedHostDevices": {"mediatedDevices": [{"mdevNameSelector": selector, "resourceName": resource}]}}  # fmt: skip


def _usb(*pairs: tuple[str, str], resource: str = OK) -> dict[str, Any]:
    selectors = [{"vendor": vendor, "product": product} for vendor, product in pairs]
    return {"permittedHostDevices": {"usb": [{"selectors": selectors, "resourceName": resource}]}}


def _types(**section: Any) -> dict[str, Any]:
    return {"mediatedDevicesConfiguration": section}


def _qgs(path: str) -> dict[str, Any]:
    return {"confidentialCompute": {"tdx": {"attestation": {"qgsSocketPath": path}}}}


@pytest.mark.parametrize(
    "document",
    [
        {},
        _pci(),
        _pci("10DE:1EB8", "nvidia.com/TU104GL"),
        _pci(resource="devices.kubevirt.io/hostdevice1"),
        _mdev("GRID T4-1Q", "nvidia.com/GRID_T4-1Q"),
        _mdev("i915-GVTg_V5_4"),
        _usb(("46f4", "0001")),
        _usb(("46F4", "1"), ("46f4", "1")),
        _types(enabled=False, mediatedDeviceTypes=["nvidia-222"]),
        _types(nodeMediatedDeviceTypes=[{"nodeSelector": {"example.com/gpu": ""}}]),
        {"virtualMachineInstancesPerNode": 1},
        {"virtualMachineInstancesPerNode": 50_000},
        {"hypervisors": [{"name": "hyperv-direct"}]},
        _qgs("/run/qgs.socket"),
    ],
    ids=str,
)
def test_good(document: dict[str, Any]) -> None:
    assert validate_configuration(view(document, Configuration), Path()) == []


PCI = "permittedHostDevices.pciHostDevices[0]"
MDEV = "permittedHostDevices.mediatedDevices[0]"
USB = "permittedHostDevices.usb[0]"
MDEVS = "mediatedDevicesConfiguration"


@pytest.mark.parametrize(
    ("document", "field", "reason", "text"),
    [
        (_pci(""), f"{PCI}.pciVendorSelector", Reason.REQUIRED, "Required"),
        (_pci("10de"), f"{PCI}.pciVendorSelector", Reason.INVALID, "10de:1eb8"),
        (_pci("10de:1eb"), f"{PCI}.pciVendorSelector", Reason.INVALID, "four hexadecimal"),
        (_pci("0x10de:0x1eb8"), f"{PCI}.pciVendorSelector", Reason.INVALID, "four hexadecimal"),
        (_pci("10de:1eb8\n"), f"{PCI}.pciVendorSelector", Reason.INVALID, "four hexadecimal"),
        (_pci("10de:1ebg"), f"{PCI}.pciVendorSelector", Reason.INVALID, "four hexadecimal"),
        (_pci("٠٠٠٠:1eb8"), f"{PCI}.pciVendorSelector", Reason.INVALID, "four hexadecimal"),
        (_pci(resource=""), f"{PCI}.resourceName", Reason.REQUIRED, "Required"),
        (_pci(resource="gpu"), f"{PCI}.resourceName", Reason.INVALID, "domain-prefixed"),
        (_pci(resource="kubernetes.io/gpu"), f"{PCI}.resourceName", Reason.INVALID, "kubernetes.io/"),
        (_pci(resource="a.com/b/c"), f"{PCI}.resourceName", Reason.INVALID, "valid label key"),
        (_pci(resource="devices.kubevirt.io/kvm"), f"{PCI}.resourceName", Reason.INVALID, "own devices"),
        (_mdev(""), f"{MDEV}.mdevNameSelector", Reason.REQUIRED, "name or id"),
        (_mdev("  "), f"{MDEV}.mdevNameSelector", Reason.REQUIRED, "name or id"),
        (_mdev("GRID\nT4"), f"{MDEV}.mdevNameSelector", Reason.INVALID, "printable"),
        (_mdev("x", "y"), f"{MDEV}.resourceName", Reason.INVALID, "domain-prefixed"),
        (_usb(), f"{USB}.selectors", Reason.REQUIRED, "no device matches"),
        (_usb(("", "1")), f"{USB}.selectors[0].vendor", Reason.REQUIRED, "Required"),
        (_usb(("1", "1"), ("1", "0x1")), f"{USB}.selectors[1].product", Reason.INVALID, "without 0x"),
        (_usb(("12345", "1")), f"{USB}.selectors[0].vendor", Reason.INVALID, "one to four"),
        (_usb(("1", "1"), resource="x"), f"{USB}.resourceName", Reason.INVALID, "domain-prefixed"),
        (_types(mediatedDeviceTypes=["a", ""]), f"{MDEVS}.mediatedDeviceTypes[1]", Reason.REQUIRED, "type"),
        (_types(mediatedDevicesTypes=["\t"]), f"{MDEVS}.mediatedDevicesTypes[0]", Reason.REQUIRED, "type"),
        (
            _types(nodeMediatedDeviceTypes=[{}, {"nodeSelector": {"a b": "x"}}]),
            f"{MDEVS}.nodeMediatedDeviceTypes[1].nodeSelector[a b]",
            Reason.INVALID,
            "name part",
        ),
        (
            _types(nodeMediatedDeviceTypes=[{"nodeSelector": {"a": "x y"}}]),
            f"{MDEVS}.nodeMediatedDeviceTypes[0].nodeSelector[a]",
            Reason.INVALID,
            "valid label",
        ),
        (
            _types(nodeMediatedDeviceTypes=[{"mediatedDeviceTypes": [""]}]),
            f"{MDEVS}.nodeMediatedDeviceTypes[0].mediatedDeviceTypes[0]",
            Reason.REQUIRED,
            "type",
        ),
        (
            {"virtualMachineInstancesPerNode": 0},
            "virtualMachineInstancesPerNode",
            Reason.INVALID,
            "between 1",
        ),
        (
            {"virtualMachineInstancesPerNode": 50_001},
            "virtualMachineInstancesPerNode",
            Reason.INVALID,
            "50000",
        ),
        ({"hypervisors": [{"name": "xen"}]}, "hypervisors[0].name", Reason.NOT_SUPPORTED, "hyperv-direct"),
        ({"hypervisors": [{"name": "kvm"}] * 2}, "hypervisors", Reason.TOO_MANY, "at most 1"),
        (_qgs("qgs.socket"), "confidentialCompute.tdx.attestation.qgsSocketPath", Reason.INVALID, "absolute"),
        (_qgs("/run/../q"), "confidentialCompute.tdx.attestation.qgsSocketPath", Reason.INVALID, "'..'"),
        (_qgs("/run/"), "confidentialCompute.tdx.attestation.qgsSocketPath", Reason.INVALID, "end in"),
        (_qgs(""), "confidentialCompute.tdx.attestation.qgsSocketPath", Reason.REQUIRED, "Required"),
    ],
)
def test_one_fault(document: dict[str, Any], field: str, reason: Reason, text: str) -> None:
    faults = validate_configuration(view(document, Configuration), Path("spec.configuration"))
    assert [(fault.field, fault.reason) for fault in faults] == [(f"spec.configuration.{field}", reason)]
    assert text in faults[0].message


def test_external_entries_are_held_to_the_same_rules() -> None:
    entry = {"pciVendorSelector": "x", "resourceName": "y", "externalResourceProvider": True}
    document = {"permittedHostDevices": {"pciHostDevices": [entry]}}
    assert len(validate_configuration(view(document, Configuration), Path())) == 2
