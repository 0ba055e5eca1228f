"""One image archive from a static busybox: what pods run, and what holds a pod together."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

BUSYBOX = "docker.io/local/busybox:1"
PAUSE = "docker.io/local/pause:1"
_COMMANDS = {BUSYBOX: ["/bin/sh"], PAUSE: ["/bin/sleep", "2147483647"]}
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}
_DIRECTORIES = {
    "bin": 0o755,
    "etc": 0o755,
    "root": 0o700,
    "tmp": 0o1777,
    "dev": 0o755,
    "proc": 0o755,
    "sys": 0o755,
}


def write_archive(busybox: Path, archive: Path, architecture: str) -> None:
    """Write both images, sharing one layer, as an archive that `ctr images import` reads."""
    layer = _layer(busybox)
    layer_name = f"{hashlib.sha256(layer).hexdigest()}.tar"
    manifest = []
    with tarfile.open(archive, "w") as tar:
        _add(tar, layer_name, layer)
        for image in sorted(_COMMANDS):
            config = json.dumps(_config(_COMMANDS[image], layer, architecture)).encode()
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(tar, config_name, config)
            manifest.append({"Config": config_name, "RepoTags": [image], "Layers": [layer_name]})
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: Path) -> bytes:
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in sorted(_DIRECTORIES.items()):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
        for name, content in sorted(_FILES.items()):
            _add(tar, name, content)
        _add(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        for applet in sorted(set(applets) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return buffer.getvalue()


def _config(command: list[str], layer: bytes, architecture: str) -> dict[str, Any]:
    return {
        "architecture": architecture,
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created_by": "dray.testing.kubernetes"}],
    }


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
