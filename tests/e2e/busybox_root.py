"""A root directory for containers: busybox with its commands, readable for every user as images are."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dray.testing.kubernetes.tools import Tools


def make_root(root: Path, tools: Tools) -> Path:
    """Fill the empty directory `root`; returns it."""
    root.chmod(0o755)
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir()
    (root / "bin/busybox").write_bytes(tools.path("busybox").read_bytes())
    (root / "bin/busybox").chmod(0o755)
    subprocess.run(["chroot", root, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    return root
