from __future__ import annotations

from typing import Any

import pytest

from dray.agent.config.additions import Additions, Role
from dray.agent.config.conflicts import find_conflicts
from dray.api.codec import view
from dray.api.field_errors import Path, Reason
from dray.api.kubevirt.types import Configuration


def _pci(selector: str, resource: str, external: bool = False) -> dict[str, Any]:
    return {"pciVendorSelector": selector, "resourceName": resource, "externalResourceProvider": external}


def _mdev(selector: str, resource: str, external: bool = False) -> dict[str, Any]:
    return {"mdevNameSelector": selector, "resourceName": resource, "externalResourceProvider": external}


def _usb(resource: str, external: bool = False) -> dict[str, Any]:
    selectors = [{"vendor": "46f4", "product": "0001"}]
    return {"selectors": selectors, "resourceName": resource, "externalResourceProvider": external}


def _permit(*, pci: Any = (), mdev: Any = (), usb: Any = ()) -> dict[str, Any]:
    return {"pciHostDevices": list(pci), "mediatedDevices": list(mdev), "usb": list(usb)}


A, B = "10de:000a", "10de:000b"
SELECT = {"select": [{"pciAddress": "0000:05:00.0", "resourceName": "a.com/x"}]}
SELECT_USB = {"select": [{"usbPort": "1-1", "resourceName": "a.com/x"}]}
GENERIC = {"generic": [{"name": "x", "path": "/dev/x", "resourceName": "a.com/x"}]}
SIM = {"sim": {"devices": [{"name": name, "resourceName": "a.com/x"} for name in ("gpu", "nic")]}}
SIM_BY_NAME = {"domain": "a.com", "sim": {"devices": [{"name": "x"}]}}

CASES: list[tuple[dict[str, Any], dict[str, Any], Role, list[str]]] = [
    # one selector, two resources
    (_permit(pci=[_pci(A, "a.com/x"), _pci(B, "a.com/y")]), {}, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x"), _pci(B, "a.com/x")]), {}, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x"), _pci(A, "a.com/x")]), {}, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x"), _pci(A.upper(), "a.com/y")]), {}, Role.REPLACE, ["pciHostDevices[1].pciVendorSelector"]),
    (_permit(pci=[_pci(A, "a.com/x", True), _pci(A, "a.com/y", True)]), {}, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x"), _pci(A, "a.com/y", True)]), {}, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x", True), _pci(A, "a.com/y", True)]), {}, Role.BESIDE_KUBEVIRT, ["pciHostDevices[1].pciVendorSelector"]),
    (_permit(mdev=[_mdev("T 1", "a.com/x"), _mdev("T_1", "a.com/y")]), {}, Role.REPLACE, ["mediatedDevices[1].mdevNameSelector"]),
    (_permit(mdev=[_mdev("T 1", "a.com/x"), _mdev("T 2", "a.com/x")]), {}, Role.REPLACE, []),
    (_permit(mdev=[_mdev("T 1", "a.com/x", True), _mdev("T_1", "a.com/y", True)]), {}, Role.BESIDE_KUBEVIRT, []),
    (_permit(usb=[_usb("a.com/x"), _usb("a.com/y")]), {}, Role.REPLACE, []),
    # one resource, two kinds
    (_permit(pci=[_pci(A, "a.com/x")], mdev=[_mdev("T", "a.com/x")]), {}, Role.REPLACE, ["mediatedDevices[0].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x")], usb=[_usb("a.com/x")]), {}, Role.REPLACE, ["usb[0].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x", True)], usb=[_usb("a.com/x", True)]), {}, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x", True)], usb=[_usb("a.com/x", True)]), {}, Role.BESIDE_KUBEVIRT, ["usb[0].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x")]), SELECT, Role.REPLACE, []),
    (_permit(usb=[_usb("a.com/x")]), SELECT_USB, Role.REPLACE, []),
    (_permit(usb=[_usb("a.com/x")]), SELECT, Role.REPLACE, ["dray.select[0].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x")]), GENERIC, Role.REPLACE, ["dray.generic[0].resourceName"]),
    (_permit(), {**GENERIC, **SELECT}, Role.REPLACE, ["dray.select[0].resourceName"]),
    (_permit(), SIM, Role.REPLACE, []),
    (_permit(pci=[_pci(A, "a.com/x")]), SIM, Role.REPLACE, ["dray.sim.devices[0].resourceName", "dray.sim.devices[1].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/sim-x")]), SIM_BY_NAME, Role.REPLACE, ["dray.sim.devices[0].resourceName"]),
    # one resource, two owners
    (_permit(pci=[_pci(A, "a.com/x"), _pci(B, "a.com/x", True)]), {}, Role.REPLACE, ["pciHostDevices[1].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x", True), _pci(B, "a.com/x")]), {}, Role.REPLACE, ["pciHostDevices[1].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x"), _pci(B, "a.com/x", True)]), {}, Role.BESIDE_KUBEVIRT, ["pciHostDevices[1].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x")]), SELECT, Role.BESIDE_KUBEVIRT, ["dray.select[0].resourceName"]),
    (_permit(pci=[_pci(A, "a.com/x", True)]), SELECT, Role.BESIDE_KUBEVIRT, []),
    (_permit(pci=[_pci(A, "a.com/x", True)]), SELECT, Role.REPLACE, ["dray.select[0].resourceName"]),
    (_permit(mdev=[_mdev("T", "a.com/x", True)]), SELECT, Role.BESIDE_KUBEVIRT, ["dray.select[0].resourceName"]),
    (_permit(mdev=[_mdev("T", "a.com/x")]), SELECT, Role.BESIDE_KUBEVIRT, ["dray.select[0].resourceName"]),
    (_permit(mdev=[_mdev("T", "a.com/y"), _mdev("T", "a.com/z")]), {}, Role.BESIDE_KUBEVIRT, []),
]  # fmt: skip


@pytest.mark.parametrize(("permitted", "added", "role", "fields"), CASES)
def test_conflicts(permitted: dict[str, Any], added: dict[str, Any], role: Role, fields: list[str]) -> None:
    configuration = view({"permittedHostDevices": permitted}, Configuration)
    faults = find_conflicts(configuration, view(added, Additions), role, Path(), Path("dray"))
    assert [fault.field.removeprefix("permittedHostDevices.") for fault in faults] == fields
    assert all(fault.reason is Reason.DUPLICATE for fault in faults)


def test_the_message_names_the_other_entry() -> None:
    permitted = _permit(pci=[_pci(A, "a.com/x"), _pci(A, "a.com/y")])
    configuration = view({"permittedHostDevices": permitted}, Configuration)
    (fault,) = find_conflicts(configuration, Additions(), Role.REPLACE, Path(), Path("dray"))
    assert str(fault) == (
        'permittedHostDevices.pciHostDevices[1].pciVendorSelector: Duplicate value: "10de:000a": '
        "permittedHostDevices.pciHostDevices[0] gives the same devices to a.com/x"
    )
