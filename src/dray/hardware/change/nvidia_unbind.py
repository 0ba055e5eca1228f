"""Make NVIDIA's driver let a card go: it does only while nobody uses the card, and only when asked before."""

from __future__ import annotations

import re
from typing import ClassVar

from dray.errors import ConflictError, HardwareError
from dray.hardware.change.access import Access
from dray.hardware.change.value import Capability, Effect, HostChange, check_address
from dray.hardware.change.vfio import holders

_CARD = "/proc/driver/nvidia/gpus/{address}"
_MINOR = re.compile(r"(?m)^Device Minor:[ \t]*([0-9]{1,7})[ \t]*$", re.ASCII)
_TRIES = 5


class SetUnbindLock(HostChange, frozen=True):
    """Hold a card for its unbinding, so that no program opens it meanwhile; or let it be used again.

    Where the driver has no such lock it is only made sure that nobody uses the card; where another driver has the card
    nothing is to be done. A card with virtual functions, or one that a process has open, is refused.
    """

    files: ClassVar[tuple[str, ...]] = (f"{_CARD}/unbindLock",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.NVIDIA,)
    undone_by: ClassVar[str] = "SetUnbindLock"

    address: str
    locked: bool = True

    def __post_init__(self) -> None:
        check_address(self.address)

    @property
    def device(self) -> str:
        """The card's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        doing = "hold" if self.locked else "do not hold"
        return f"{doing} {self.address} for unbinding it from NVIDIA's driver"

    def is_so(self, host: Access) -> bool:
        """The lock is as wanted; or there is none, and nobody uses the card; or another driver has the card."""
        if host.link_name(f"/sys/bus/pci/devices/{self.address}/driver") != "nvidia":
            return True
        now = self._present(host)
        return (not self.locked or not self._users(host)) if now is None else now == self.locked

    def perform(self, host: Access) -> Effect:
        """Wait until nobody has the card open, then take the lock; the driver refuses it while somebody has."""
        if self.is_so(host):
            return Effect(changed=False)
        if self.locked:
            self._refuse_divided(host)
            self._wait_unused(host)
        if self._present(host) is None:
            return Effect(changed=False)
        for _ in range(_TRIES):
            host.write(self.address, self.target, "1" if self.locked else "0")
            if host.wait(lambda: self._present(host) == self.locked, host.limits.effect / _TRIES):
                return Effect(changed=True, undo=SetUnbindLock(self.address, not self.locked))
        message = f"{self.address}: the driver does not take the lock {self.target}: somebody uses the card"
        raise HardwareError(message, device=self.address, path=self.target)

    def _present(self, host: Access) -> bool | None:
        """None: this driver has no lock. Those of plain machines have none, those of hosts for vGPUs have."""
        text = host.read(self.target)
        return None if text is None else text.rpartition(" ")[2] == "1"  # with or without a name before it

    def _refuse_divided(self, host: Access) -> None:
        path = f"/sys/bus/pci/devices/{self.address}/sriov_numvfs"
        if host.read_number(path):
            raise ConflictError(
                f"{self.address} has virtual functions, which would vanish: write 0 to {path} first"
            )

    def _wait_unused(self, host: Access) -> None:
        """The last process of a container that was just stopped may take a moment to end."""
        if not host.wait(lambda: not self._users(host), host.limits.effect):
            users = ", ".join(self._users(host)) or "a process"
            raise ConflictError(f"{self.address} is in use by {users}: stop it first")

    def _users(self, host: Access) -> list[str]:
        found = _MINOR.search(host.read(f"{_CARD.format(address=self.address)}/information") or "")
        return holders(host, [f"/dev/nvidia{found[1]}"]) if found else []
