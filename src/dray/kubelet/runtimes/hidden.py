"""What containers do not see, or cannot write to, of /proc and /sys: the kubelet's lists of 1.36."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

MASKED: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@functools.cache
def masked_paths(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """With the counters of each processor of this machine that tell what others do."""
    return (*MASKED, *(str(path) for path in sorted(cpus.glob("cpu[0-9]*/thermal_throttle"))))
