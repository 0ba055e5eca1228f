"""Print every PCI function and USB device that `dray.hardware` reads, as JSON."""

from __future__ import annotations

import dataclasses
import json

from dray.hardware.host_root import open_host_root
from dray.hardware.pci import read_pci
from dray.hardware.usb import read_usb

if __name__ == "__main__":
    with open_host_root("/").sweep() as sweep:
        pci, usb = read_pci(sweep), read_usb(sweep)
    facts = {
        "pci": [dataclasses.asdict(function) for function in pci.items],
        "usb": [dataclasses.asdict(device) for device in usb.items],
        "problems": [problem.message for problem in (*pci.problems, *usb.problems)],
    }
    print(json.dumps(facts))
