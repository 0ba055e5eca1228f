"""The guest's first file system: busybox, the kernel modules and the script that makes the machine's own files its root."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

TAG = "hostroot"
"""What QEMU calls the machine's root that it shares with the guest."""
WRITABLE = ("/tmp", "/run", "/var/lib")  # noqa: S108 - the guest's own, empty at each boot
_APPLETS = ("sh", "mount", "mkdir", "insmod", "switch_root")
_DIRECTORY, _FILE, _DEVICE = 0o040755, 0o100755, 0o020600

# `cache=loose`: nobody writes there, so what was read once needs no second question.
_SCRIPT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r name; do insmod "/modules/$name.ko" || echo "module $name: failed"; done < /modules/order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 {tag} /host
mount -o bind /host /below
for place in {writable}; do mount -t tmpfs tmpfs "/host$place"; done
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
{hidden}
for place in proc sys dev; do mount -o move "/$place" "/host/$place"; done
exec switch_root /host {first}
"""


def write_initramfs(
    path: Path, busybox: Path, modules: Path, needed: Sequence[Path], first: Sequence[str]
) -> None:
    """Write the archive. `first` is the guest's first program, in the machine's own files.

    `needed` are directories of the machine that the guest must see even where they lie below a place that it has anew.
    """
    script = _SCRIPT.format(
        tag=TAG,
        writable=" ".join(WRITABLE),
        hidden="\n".join(_show(place) for place in sorted(set(needed)) if is_hidden(place)),
        first=shlex.join(first),
    )
    entries = [
        *((name, _DIRECTORY, b"") for name in ("bin", "dev", "proc", "sys", "host", "below", "modules")),
        ("dev/console", _DEVICE, b""),
        ("init", _FILE, script.encode()),
        *((f"bin/{name}", _FILE, busybox.read_bytes()) for name in ("busybox",)),
        *((f"bin/{name}", 0o120777, b"busybox") for name in _APPLETS),
        *((f"modules/{file.name}", _FILE, file.read_bytes()) for file in sorted(modules.iterdir())),
    ]
    with path.open("wb") as archive:
        for number, entry in enumerate(entries, 1):
            archive.writelines(_member(number, *entry))
        archive.writelines(_member(0, "TRAILER!!!", 0, b""))


def is_hidden(place: Path) -> bool:
    """Whether the guest has something of its own there."""
    return any(place.is_relative_to(own) for own in WRITABLE)


def _show(place: Path) -> str:
    quoted = shlex.quote(str(place))
    return f"mkdir -p /host{quoted} && mount -o bind /below{quoted} /host{quoted}"


def _member(number: int, name: str, mode: int, content: bytes) -> Iterator[bytes]:
    """One entry in the format that the kernel reads (newc): a header of numbers in hex, name, content, each padded to 4."""
    console = (5, 1) if mode == _DEVICE else (0, 0)
    named = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *console, len(named), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    yield _padded(header + named)
    yield _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
