"""Write a driver for a new kind of device, in a package of its own. Start with `docs/howto/write-a-driver.md`.

In: a `Driver` of somebody else: how it finds its devices, and what a container needs to use them.
Out: a program that serves it through both doors (`run`), or a kind of the agent's (`installed_drivers`).
Next: `processes/` runs it; `docs/reference/sdk.md` says what stays the same for drivers.
"""

from dray.errors import ConflictError, HardwareError, InvalidError, NotFoundError, UnavailableError
from dray.sdk.config import Config
from dray.sdk.driver import CONTRACT, Driver
from dray.sdk.host import Host
from dray.sdk.program import run
from dray.sdk.values import Device, Edits, Mount, Node, Request

__all__ = [
    "CONTRACT",
    "Config",
    "ConflictError",
    "Device",
    "Driver",
    "Edits",
    "HardwareError",
    "Host",
    "InvalidError",
    "Mount",
    "Node",
    "NotFoundError",
    "Request",
    "UnavailableError",
    "run",
]
