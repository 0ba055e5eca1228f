"""What a PCI function is split into: SR-IOV virtual functions, and the vGPU profile of an NVIDIA one."""

from __future__ import annotations

import errno
from typing import ClassVar

from dray.errors import ConflictError, Error, HardwareError, NotFoundError
from dray.hardware.change.access import Access
from dray.hardware.change.value import Effect, HostChange, check_address, check_range
from dray.hardware.change.vfio import refuse_in_use

_DEVICE = "/sys/bus/pci/devices/{address}"


class SetSriovVfs(HostChange, frozen=True):
    """Make `count` virtual functions of a physical one; 0 takes them all away.

    From one number to another goes only by way of 0, as in the kernel: two changes, because the first takes functions
    away from whoever uses them.
    """

    files: ClassVar[tuple[str, ...]] = (f"{_DEVICE}/sriov_numvfs",)
    undone_by: ClassVar[str] = "SetSriovVfs"
    may_block: ClassVar[bool] = True

    address: str
    count: int

    def __post_init__(self) -> None:
        check_address(self.address)
        check_range(self.count, 0, 65535, "count")

    @property
    def device(self) -> str:
        """The physical function's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        return f"make {self.count} virtual functions of {self.address}"

    def is_so(self, host: Access) -> bool:
        """So many virtual functions are linked to it."""
        return self._present(host) == self.count

    def perform(self, host: Access) -> Effect:
        """Write, and wait for the functions; their drivers and nodes may come later still."""
        before = self._present(host)
        if before == self.count:
            return Effect(changed=False)
        self._check(host, before)
        advice = {
            errno.ENOENT: "its driver cannot make virtual functions, or it has no driver: bind the vendor's driver",
            errno.EBUSY: "it has virtual functions already, or they are in use",
            errno.ENOMEM: "the bus has no room for them: enable SR-IOV in the firmware, or boot with pci=realloc",
        }
        host.write(self.address, self.target, str(self.count), advice)
        if not host.wait(lambda: self.is_so(host), host.limits.effect):
            message = (
                f"{self.address}: asked for {self.count} virtual functions, has {self._present(host)} after "
                f"{host.limits.effect:g} s: look at the kernel log"
            )
            raise HardwareError(message, device=self.address, path=self.target)
        return Effect(changed=True, undo=SetSriovVfs(self.address, before))

    def _present(self, host: Access) -> int:
        # By the links: reading `sriov_numvfs` waits as long as the kernel is binding or unbinding the function.
        if not host.reading.exists(self.target):
            raise NotFoundError(
                f"{self.address} has no {self.target}: it is not there, or not a physical function with SR-IOV",
                kind="device",
                name=self.address,
            )
        names = host.names(_DEVICE.format(address=self.address))
        return sum(name.startswith("virtfn") for name in names)

    def _check(self, host: Access, before: int) -> None:
        if before and self.count:
            raise ConflictError(
                f"{self.address} has {before} virtual functions: set 0 first, when nobody uses them, then {self.count}"
            )
        for index in range(before):
            refuse_in_use(host, self.address, f"{_DEVICE.format(address=self.address)}/virtfn{index}")
        total = host.read_number(self.target.replace("sriov_numvfs", "sriov_totalvfs"))
        if total is not None and self.count > total:
            message = f"{self.address}: cannot make {self.count} virtual functions: it makes {total} at most"
            raise HardwareError(message, device=self.address, path=self.target)


class SetVgpuProfile(HostChange, frozen=True):
    """Give a virtual function of an NVIDIA GPU a vGPU profile, by number; 0 takes it away."""

    files: ClassVar[tuple[str, ...]] = (f"{_DEVICE}/nvidia/current_vgpu_type",)
    undone_by: ClassVar[str] = "SetVgpuProfile"

    address: str
    profile: int

    def __post_init__(self) -> None:
        check_address(self.address)
        check_range(self.profile, 0, 2**32 - 1, "profile")

    @property
    def device(self) -> str:
        """The function's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        return f"set vGPU profile {self.profile} on {self.address}"

    def is_so(self, host: Access) -> bool:
        """The driver shows this profile."""
        return self._present(host) == self.profile

    def perform(self, host: Access) -> Effect:
        """Write, and wait for it. One profile replaces another by way of 0; a failure brings the old one back.

        ConflictError while a process holds the function.
        """
        before = self._present(host)
        if before == self.profile:
            return Effect(changed=False)
        refuse_in_use(host, self.address, _DEVICE.format(address=self.address))
        try:
            if before and self.profile:
                self._set(host, 0)
            self._set(host, self.profile)
        except Error:
            self._put_back(host, before)
            raise
        return Effect(changed=True, undo=SetVgpuProfile(self.address, before))

    def _set(self, host: Access, profile: int) -> None:
        creatable = self.target.replace("current_vgpu_type", "creatable_vgpu_types")
        refusal = f"the GPU does not offer profile {profile} now: look into {creatable}"
        advice = {
            errno.EINVAL: refusal,
            errno.ENOSPC: refusal,
            errno.EPERM: f"{refusal}; or Dray is not root",
        }
        host.write(self.address, self.target, str(profile), advice)
        if not host.wait(lambda: self._present(host) == profile, host.limits.effect):
            message = (
                f"{self.address}: profile {profile} is not set after {host.limits.effect:g} s: {refusal}"
            )
            raise HardwareError(message, device=self.address, path=self.target)

    def _put_back(self, host: Access, profile: int) -> None:
        try:
            if self._present(host) != profile:
                host.write(self.address, self.target, str(profile))
        except Error:  # the first failure is the one to tell
            return

    def _present(self, host: Access) -> int:
        number = host.read_number(self.target)
        if number is None:
            raise NotFoundError(
                f"{self.address} has no {self.target}: it is not there, or not a virtual function that NVIDIA's vGPU "
                "driver has",
                kind="device",
                name=self.address,
            )
        return number
