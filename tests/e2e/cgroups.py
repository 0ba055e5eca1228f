"""The cgroups of this machine, which others make and remove while one looks."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

_TOP = "/sys/fs/cgroup"


def cgroups_like(pattern: str) -> list[Path]:
    """Those whose path ends as the pattern says, over all controllers. One that vanishes meanwhile does not count."""
    found = (directory for directory, _, _ in os.walk(_TOP) if fnmatch(directory, f"*/{pattern}"))
    return [Path(each) for each in sorted(found)]
