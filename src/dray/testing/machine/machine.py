"""A QEMU guest that runs this machine's own programs on devices of its own.

    with Machine(locate()) as machine:
        print(machine.run(["dray", "devices"]).stdout)

Entered = the guest takes commands; left = nothing remains on this machine, even when the owner is killed. The guest sees
the root of this machine read-only, so the virtual environment and the checkout are there under the same paths; `/tmp`,
`/run`, `/var/lib` and all devices are its own. It is emulated in software: everything takes several times as long.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dray.errors import InvalidError
from dray.testing.kubernetes.part import Part, last_lines, wait_until
from dray.testing.kubernetes.private import PrivateDirectory
from dray.testing.machine import guest, hardware
from dray.testing.machine.initramfs import TAG, write_initramfs
from dray.testing.machine.link import GuestProgram, Link
from dray.testing.machine.parts import Parts, locate
from dray.testing.machine.qmp import Qmp

BOOT_TIMEOUT_S = 120.0
UNPLUG_TIMEOUT_S = 30.0
_PORT = "/dev/vport0p1"
# Expedited: else every device that goes is waited for half a minute. The last three: on a busy machine the guest stands still for seconds, which the kernel takes for broken hardware.
_KERNEL_OPTIONS = (
    "console=ttyS0 intel_iommu=on panic=-1 mitigations=off rcupdate.rcu_expedited=1 "
    "no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
)


class Machine:
    """The guest. Methods block; several threads may run programs at once, one at a time may plug.

    With `save_logs`, the console is copied below that directory when the block is left by an exception or `failed` was
    set; `saved_logs` then names the copy.
    """

    private: PrivateDirectory
    qemu: Part
    link: Link
    qmp: Qmp

    def __init__(
        self, parts: Parts | None = None, *, devices: Iterable[str] = (), save_logs: Path | None = None
    ) -> None:
        self.parts = parts or locate()
        if not self.parts.is_installed():
            raise InvalidError(
                "the guest is not installed: run `make e2e`, or `python -m dray.testing.machine install`."
            )
        self.failed = False
        self.saved_logs: Path | None = None
        self._devices = tuple(devices)
        self._save_logs = save_logs
        self._running: list[Part | Link | Qmp] = []

    # Life

    def __enter__(self) -> Self:
        self.private = PrivateDirectory()
        try:
            self._start()
        except BaseException:
            self.failed = True
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.failed = self.failed or kind is not None
        self._leave()

    def _start(self) -> None:
        directory = self.private.path
        first = [str(self.parts.program("busybox")), "sh", "-c", _first()]
        write_initramfs(
            directory / "initramfs", self.parts.program("busybox"), self.parts.modules, self._needed(), first
        )
        self.qemu = Part("qemu", self._command(directory), directory, self.parts.libraries)
        self._running.append(self.qemu)
        self.qemu.start()
        _compile_ourselves()
        self.link = Link(self._connect(directory / "guest"))
        self._running.append(self.link)
        self.qmp = Qmp(self._connect(directory / "qmp"))
        self._running.append(self.qmp)
        wait_until(lambda: self.link.is_ready, f"the guest ({self.console})", BOOT_TIMEOUT_S, (self.qemu,))

    def _connect(self, path: Path) -> socket.socket:
        """A connection to QEMU, as soon as it takes one."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            wait_until(lambda: connection.connect_ex(str(path)) == 0, "QEMU", BOOT_TIMEOUT_S, (self.qemu,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _leave(self) -> None:
        try:
            for one in reversed(self._running):
                one.kill() if isinstance(one, Part) else one.close()
            if self.failed and self._save_logs is not None:
                self.saved_logs = self.private.save_logs(self._save_logs)
        finally:
            self._running.clear()
            self.private.close()

    def _command(self, directory: Path) -> list[str | Path]:
        return [
            self.parts.program("qemu"),
            *(word for place in self.parts.firmware for word in ("-L", place)),
            *("-accel", "tcg,thread=multi", "-display", "none", "-nodefaults", "-no-reboot"),
            *("-kernel", self.parts.kernel, "-initrd", directory / "initramfs"),
            *("-append", _KERNEL_OPTIONS),
            *("-serial", f"file:{self.console}"),
            *("-chardev", f"socket,id=guest,path={directory / 'guest'},server=on,wait=off"),
            *("-device", "virtio-serial-pci,bus=pcie.0,addr=0x2", "-device", "virtserialport,chardev=guest"),
            *("-qmp", f"unix:{directory / 'qmp'},server=on,wait=off"),
            *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", f"virtio-9p-pci,fsdev=root,mount_tag={TAG},bus=pcie.0,addr=0x3"),
            *hardware.options(self._devices),
        ]

    def _needed(self) -> list[Path]:
        """What the guest must see of this machine's files: its Python, everything that this one imports, the parts."""
        places = [sys.prefix, sys.base_prefix, *sys.path, str(Path.cwd()), str(self.parts.directory)]
        return [path for path in (Path(place).resolve() for place in places if place) if path.is_dir()]

    @property
    def console(self) -> Path:
        """What the guest's kernel and its first program printed."""
        return self.private.path / "logs" / "console.log"

    def log_ends(self, lines: int = 20) -> str:
        """The last lines of every saved log, for a report."""
        if self.saved_logs is None:
            return ""
        logs = sorted(self.saved_logs.rglob("*.log"))
        return "\n".join(f"--- {log.relative_to(self.saved_logs)}\n{last_lines(log, lines)}" for log in logs)

    # Programs

    @property
    def environment(self) -> dict[str, str]:
        """The environment of programs in the guest."""
        tools = sorted({str(self.parts.program(name).parent) for name in ("lspci", "lsusb", "busybox")})
        path = os.pathsep.join([f"{sys.prefix}/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", *tools])
        return {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108

    def start(self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> GuestProgram:
        """Start a program in the guest, in its `/tmp`; it runs until it ends or is killed."""
        return self.link.start([str(word) for word in argv], {**self.environment, **(env or {})})

    def run(
        self,
        argv: Sequence[str | Path],
        timeout: float = 60.0,
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the guest to its end; it is killed and UnavailableError raised after `timeout` seconds."""
        program = self.start(argv, env)
        try:
            if stdin:
                program.write(stdin)
            program.close_input()
            status = program.wait(timeout)
        except BaseException:
            program.signal(signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(program.argv, status, program.stdout, program.stderr)

    def shell(self, script: str, timeout: float = 60.0) -> str:
        """Run a shell script in the guest and return what it printed; InvalidError where it fails."""
        done = self.run([self.parts.program("busybox"), "sh", "-ec", script], timeout)
        if done.returncode != 0:
            raise InvalidError(f"{script!r} failed in the guest ({done.returncode}): {done.stderr.strip()}")
        return done.stdout

    def write(self, path: str | Path, text: str) -> None:
        """Write a file in the guest; readers see the old or the new one."""
        self.link.write_file(str(path), text, 30.0)

    # Devices

    def plug(self, driver: str, name: str, bus: str, **settings: Any) -> None:
        """Add a device while the guest runs: a function on bus `hot0` or `hot1`, a USB device on `usb.0` with a `port`."""
        self.qmp.execute("device_add", driver=driver, id=name, bus=bus, **settings)

    def unplug(self, name: str) -> None:
        """Take a device away and wait until it is gone. A function goes only when the guest's kernel lets it go."""
        self.qmp.forget_events()
        self.qmp.execute("device_del", id=name)
        self.qmp.wait_event("DEVICE_DELETED", lambda data: data.get("device") == name, UNPLUG_TIMEOUT_S)

    def add_disk(self, name: str) -> None:
        """Make a disk of zeros, the `drive` of a `usb-storage` to be plugged."""
        self.qmp.execute("blockdev-add", **hardware.blank_disk(name))


def _compile_ourselves() -> None:
    """Compile our modules while the guest boots, where that is still to do: it can write nowhere, and is slow."""
    command = [sys.executable, "-m", "compileall", "-qq", str(Path(guest.__file__).parents[2])]
    subprocess.run(command, timeout=BOOT_TIMEOUT_S, check=False)  # a checkout that nobody may write is fine


def _first() -> str:
    """The guest's first program: it runs ours, collects orphans, and turns the machine off at the end."""
    agent = shlex.join([sys.executable, "-I", str(Path(guest.__file__).resolve()), _PORT])
    return f"{agent}; echo the guest program ended: $?; poweroff -f"
