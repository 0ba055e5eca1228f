"""Builds KubeVirt's own code as a program to ask (`tests/e2e/tools/kubevirt`).

virt-launcher's packages are imported. Of virt-handler's device manager only the files of the kinds are taken, because the
rest needs half a cluster to compile: they are copied out of the module, unchanged, into the package `manager` before the
build.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dray.testing.kubernetes.tools import cache_dir

SOURCE = Path(__file__).parent / "tools" / "kubevirt"
MODULE = "kubevirt.io/kubevirt"
FILES = (
    "common",
    "device_plugin_base",
    "generic_device",
    "mediated_device",
    "mediated_devices_types",
    "nvidia",
    "pci_device",
    "usb_device",
)


def kubevirt_program() -> Path:
    """The program, built once for each state of its source, with the flags of the other builds so that they share work."""
    digest = hashlib.sha256(" ".join(FILES).encode())
    for path in sorted(path for path in SOURCE.rglob("*") if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    program = cache_dir().parent / "kubevirt" / digest.hexdigest()[:16] / "kubevirt"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            _build(Path(scratch) / "source").rename(program)
    return program


def _build(source: Path) -> Path:
    shutil.copytree(SOURCE, source)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    download = ["go", "mod", "download", "-json", MODULE]
    told = subprocess.run(download, cwd=source, env=environment, check=True, stdout=subprocess.PIPE)
    upstream = Path(json.loads(told.stdout)["Dir"]) / "pkg" / "virt-handler" / "device-manager"
    for name in FILES:
        shutil.copyfile(upstream / f"{name}.go", source / "manager" / f"{name}.go")
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "program", "."]
    subprocess.run(command, cwd=source, env=environment, check=True)
    return source / "program"
