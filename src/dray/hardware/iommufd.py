"""/dev/iommu, opened and set up for one virtual machine. The descriptor is what counts: who has it has an empty IOMMU."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from dray.errors import DeniedError, Error, HardwareError, NotFoundError
from dray.hardware.device_nodes import DeviceNode, NodeKind, open_device_node, read_device_node
from dray.hardware.host_root import Place

IOMMU_OPTION = 0x3B87
"""The ioctl that sets an option, before anything else is done with the descriptor."""

# struct iommu_option: size, option, operation, reserved, object, value
_OPTION = struct.Struct("=IIHHIQ")
_RLIMIT_MODE = 0
_SET = 0
_BY_PROCESS = 1

_HOW = "it needs Linux 6.2 or newer with CONFIG_IOMMUFD (modprobe iommufd)"
_RIGHTS = "run Dray privileged, as root and with CAP_SYS_RESOURCE"


def check_iommufd(root: Place, path: str) -> DeviceNode:
    """The node at `path`; HardwareError where none is. A look only: whether the kernel obeys shows when it is opened."""
    try:
        return read_device_node(root, path)
    except NotFoundError as error:
        message = f"this host does not support iommufd: {path} does not exist; {_HOW}"
        raise HardwareError(message, path=path) from error


def open_iommufd(root: Place, path: str) -> int:
    """A new descriptor of the node at `path`, whose pinned memory counts for the process that maps it and not for its user.

    The caller closes it. HardwareError where there is no iommufd or the kernel refuses; DeniedError without the rights.
    """
    if check_iommufd(root, path).kind is not NodeKind.CHAR:
        raise HardwareError(f"cannot open {path} for a container: it is not a character device", path=path)
    try:
        descriptor = open_device_node(root, path)
    except Error as error:
        raise _refused(error, path, "open") from error
    try:
        os.set_blocking(descriptor, True)  # the receiver shares this flag, and expects it as usual
        fcntl.ioctl(
            descriptor, IOMMU_OPTION, _OPTION.pack(_OPTION.size, _RLIMIT_MODE, _SET, 0, 0, _BY_PROCESS)
        )
    except OSError as error:
        os.close(descriptor)
        raise _refused(error, path, "set up") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refused(error: Error | OSError, path: str, doing: str) -> Error:
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError):
        return HardwareError(f"cannot {doing} {path}: {error}", path=path)
    code = cause.errno or 0
    message = f"cannot {doing} {path} for a container ({errno.errorcode.get(code, code)})"
    if code in (errno.EACCES, errno.EPERM):
        return DeniedError(f"{message}: {_RIGHTS}", what=f"{doing} {path}")
    if code in (errno.ENOTTY, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP):
        return HardwareError(f"{message}: no iommufd is behind it; {_HOW}", path=path)
    return HardwareError(f"{message}: {os.strerror(code)}", path=path)
