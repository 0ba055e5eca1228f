"""A machine with real devices for tests: a QEMU guest with an IOMMU, PCI functions, USB devices and mediated devices.

In: the installed parts (`python -m dray.testing.machine install`), the devices to begin with.
Out: `Machine`: run programs in the guest, plug and unplug devices; `fixture` has it as a pytest fixture.
Next: tests of drivers on what the kernel really shows.
"""

from __future__ import annotations

from dray.testing.machine.machine import Machine

__all__ = ["Machine"]
