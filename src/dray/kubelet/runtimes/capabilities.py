"""Which capabilities a container gets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import Security

DEFAULT_CAPABILITIES: Final = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
)
# In the kernel's order: the place is the bit in the masks of /proc/PID/status.
ALL_CAPABILITIES: Final = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
)


def choose(security: Security, known: Sequence[str] = ALL_CAPABILITIES) -> list[str]:
    """Sorted. ALL means every one that is `known`; a name in `drop` wins over one in `add`, ALL in `drop` over none."""
    if security.privileged:
        return sorted(known)
    added = {_full_name(name, "add") for name in security.add_capabilities}
    dropped = {_full_name(name, "drop") for name in security.drop_capabilities}
    chosen = set(known) if "CAP_ALL" in added else set(DEFAULT_CAPABILITIES) & set(known)
    if "CAP_ALL" in dropped:
        chosen = set()
    return sorted((chosen | added) - dropped - {"CAP_ALL"})


def _full_name(name: str, field: str) -> str:
    upper = name.upper()
    full = upper if upper.startswith("CAP_") else f"CAP_{upper}"
    if full not in (*ALL_CAPABILITIES, "CAP_ALL"):
        raise InvalidError(f"unknown capability {name!r}", field=f"capabilities.{field}")
    return full
