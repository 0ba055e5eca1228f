"""What of a Kubernetes node can be seen on this machine, to compare before and after.

Written for the tests that say "nothing is left behind"; what belongs to live clusters of other runs, and to checks, is left out.
"""

from __future__ import annotations

from pathlib import Path

from dray.testing.kubernetes import leftovers
from dray.testing.kubernetes.node import KERNEL_SETTINGS

# Where the parts of a node write when nobody tells them otherwise.
_PLACES = (
    "/etc/cdi",
    "/etc/cni",
    "/etc/containerd",
    "/etc/kubernetes",
    "/etc/nri",
    "/opt/cni",
    "/opt/containerd",
    "/opt/nri",
    "/run/cdi",
    "/run/cni",
    "/run/containerd",
    "/run/kubernetes",
    "/run/netns",
    "/run/nri",
    "/run/runc",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
_SETTINGS = (*KERNEL_SETTINGS, "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")


def footprint() -> frozenset[str]:
    """One line for each file, cgroup, network interface and kernel setting that a node could have made or changed."""
    others = [
        path.name.removeprefix(leftovers.PREFIX)
        for path in leftovers.directories()
        if leftovers.is_live(path)
    ]
    found = {f"file {place}" for place in _PLACES if Path(place).exists()}
    found -= {f"file {path}" for path in leftovers.made_for_checks()}
    if others:
        found -= {f"file {path}" for path in leftovers.HOST_DIRS if (path / leftovers.MARK).exists()}
    found |= {f"file {path}" for path in leftovers.PARENT.glob(f"{leftovers.PREFIX}*")}
    found |= {f"interface {path.name}" for path in Path("/sys/class/net").iterdir()}
    found |= {f"cgroup {path}" for path in _cgroups()}
    found |= {f"setting {name}={_read(Path('/proc/sys') / name)}" for name in _SETTINGS}
    return frozenset(line for line in found if not any(other in line for other in others))


def _cgroups() -> list[Path]:
    """The groups at the top of every hierarchy (v1 has one directory per hierarchy, v2 none)."""
    tops = [path for path in leftovers.CGROUPS.iterdir() if path.is_dir()]
    return [*tops, *(path for top in tops for path in top.iterdir() if path.is_dir())]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "?"
