"""Read a part of sysfs into plain values, to compare what a kernel shows with what `dray.testing.host` builds.

`data/linux-6.1-qemu.json` was recorded with this in a QEMU guest (Debian's 6.1 kernel, q35 with intel-iommu, e1000e
functions behind a root port and bound to vfio-pci, an nvme with sriov_max_vfs=2, qemu-xhci with a keyboard, a hub and
a tablet, the kernel's mtty sample), one section after each step. As root, on any machine:

    python -m tests.testing.host.sysfs_shape / sys/bus/pci sys/kernel/iommu_groups > shape.json
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

Shape = dict[str, dict[str, str]]
_UNREAD = ("config", "rom", "resource")


def record(root: Path, tops: list[str]) -> Shape:
    """Every entry below `tops`: link texts, modes, and the texts of small readable files."""
    found: Shape = {}
    for top in tops:
        for directory, names, files in os.walk(root / top):
            for name in names + files:
                path = Path(directory) / name
                found[str(path.relative_to(root))] = entry(path)
    return dict(sorted(found.items()))


def entry(path: Path) -> dict[str, str]:
    """One entry: a link, a directory, a node or a file."""
    status = path.lstat()
    mode = f"{status.st_mode & 0o7777:04o}"
    if stat.S_ISLNK(status.st_mode):
        return {"link": os.readlink(path)}
    if stat.S_ISDIR(status.st_mode):
        return {"dir": mode}
    if stat.S_ISCHR(status.st_mode):
        return {"char": f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}", "mode": mode}
    text = _text(path) if status.st_mode & 0o444 and not path.name.startswith(_UNREAD) else None
    return {"mode": mode} if text is None else {"mode": mode, "text": text}


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes()[:1024].decode()
    except (OSError, UnicodeDecodeError):
        return None


if __name__ == "__main__":
    json.dump(record(Path(sys.argv[1]), sys.argv[2:]), sys.stdout, indent=0)
