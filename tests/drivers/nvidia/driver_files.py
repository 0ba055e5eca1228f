"""The driver's libraries in a host's tree."""

from __future__ import annotations

from dray.testing.host import Host
from tests.hardware.elf_files import library

DIRECTORY = "/usr/lib/x86_64-linux-gnu"


def install_driver(host: Host, version: str) -> None:
    """The two that no program does without, with their links, and nvidia-smi."""
    for name in ("libcuda", "libnvidia-ml"):
        library(host.root / f"{DIRECTORY}/{name}.so.{version}".lstrip("/"), f"{name}.so.1")
        host.link(f"{DIRECTORY}/{name}.so.1", f"{name}.so.{version}")
    library(host.root / "usr/bin/nvidia-smi")
