"""What the generic kind serves."""

from __future__ import annotations

import msgspec

from dray.drivers.naming import KUBEVIRT_PREFIX, SHARES, check_distinct
from dray.errors import InvalidError


class GenericDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node, or with `*`, `?` and `[…]` in `path` all that match, each a device of its own.

    `shares` is how many containers use one at once; None: one. `pre_open` opens it before it is handed out, which lets
    the kernel load the module behind it. Without `resource` it is KubeVirt's name, `devices.kubevirt.io/<name>`.
    """

    name: str
    path: str
    shares: int | None = SHARES
    pre_open: bool = False
    resource: str = ""

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if parts[0] or len(parts) < 3 or any(part in ("", ".", "..") for part in parts[1:]):
            raise InvalidError(
                f"path {self.path!r} of device {self.name!r} must be absolute, like /dev/fuse", field="path"
            )
        if not self.name or "/" in self.name or ":" in self.name:
            raise InvalidError(
                f"name {self.name!r} of {self.path} must be a name without '/' and ':'", field="name"
            )
        if self.shares is not None and self.shares < 1:
            raise InvalidError(f"shares of device {self.name!r} must be 1 or more", field="shares")

    @property
    def resource_name(self) -> str:
        """The extended resource."""
        return self.resource or KUBEVIRT_PREFIX + self.name

    @property
    def is_pattern(self) -> bool:
        """Whether the path stands for several."""
        return any(sign in self.path for sign in "*?[")


# KubeVirt's names, so that its launcher pods find them.
KVM = GenericDevice("kvm", "/dev/kvm")
TUN = GenericDevice("tun", "/dev/net/tun", pre_open=True)
VHOST_NET = GenericDevice("vhost-net", "/dev/vhost-net", pre_open=True)
MSHV = GenericDevice("mshv", "/dev/mshv")
SEV = GenericDevice("sev", "/dev/sev", pre_open=True)
VHOST_VSOCK = GenericDevice("vhost-vsock", "/dev/vhost-vsock", pre_open=True)


class GenericConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; the default is what KubeVirt knows on a machine with KVM."""

    devices: tuple[GenericDevice, ...] = (KVM, SEV, TUN, VHOST_NET, VHOST_VSOCK)

    def __post_init__(self) -> None:
        check_distinct([device.name for device in self.devices])
