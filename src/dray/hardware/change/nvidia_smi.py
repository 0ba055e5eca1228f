"""What only NVIDIA's own program can set: how long one process computes before the next, and who may compute at all."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from typing import ClassVar, Final

from dray.errors import ConflictError, DeniedError, Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.change.access import Access
from dray.hardware.change.value import Capability, Effect, HostChange, check_address, check_range
from dray.hardware.nvml.library import find_library
from dray.hardware.sweep import Sweep

TIME_SLICES: Final = ("Default", "Short", "Medium", "Long")
COMPUTE_MODES: Final = {
    "Default": "DEFAULT",
    "Exclusive_Process": "EXCLUSIVE_PROCESS",
    "Prohibited": "PROHIBITED",
}
"""As the program shows them, and as it takes them."""
_PROGRAM: Final = "nvidia-smi"
_PLACES: Final = ("/usr/bin", "/usr/sbin", "/opt/bin", "/usr/local/nvidia/bin")
_TIME_SLICE: Final = re.compile(r"\| +[0-9]+ +Timeslice +([A-Za-z]+) +\|", re.ASCII)
_IN_USE: Final = re.compile(r"in use", re.IGNORECASE)
_NOT_PERMITTED: Final = re.compile(r"insufficient permissions", re.IGNORECASE)


class SetTimeSlice(HostChange, frozen=True):
    """How long a process computes on a card before it is the next one's turn: one of `TIME_SLICES`."""

    files: ClassVar[tuple[str, ...]] = ("/dev/nvidia{minor}",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.NVIDIA,)
    undone_by: ClassVar[str] = "SetTimeSlice"

    address: str
    minor: int
    interval: str = TIME_SLICES[0]

    def __post_init__(self) -> None:
        check_address(self.address)
        check_range(self.minor, 0, 2**20 - 1, "minor")
        if self.interval not in TIME_SLICES:
            raise InvalidError(
                f"interval {self.interval!r} must be one of {', '.join(TIME_SLICES)}", field="interval"
            )

    @property
    def device(self) -> str:
        """The card's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        return f"set the time slice of {self.address} to {self.interval}"

    def is_so(self, host: Access) -> bool:
        """The program shows it."""
        return self._present(host) == self.interval

    def perform(self, host: Access) -> Effect:
        """Set it, and see that it is so."""
        before = self._present(host)
        if before == self.interval:
            return Effect(changed=False)
        number = str(TIME_SLICES.index(self.interval))
        _run(host, self.address, "compute-policy", "-i", self.address, "--set-timeslice", number)
        if self._present(host) != self.interval:
            raise HardwareError(
                f"{self.address}: the time slice is still {self._present(host)}", device=self.address
            )
        return Effect(changed=True, undo=SetTimeSlice(self.address, self.minor, before))

    def _present(self, host: Access) -> str:
        found = _TIME_SLICE.search(_run(host, self.address, "compute-policy", "-i", self.address, "-l"))
        if found is None or found[1] not in TIME_SLICES:
            message = (
                f"{self.address}: {_PROGRAM} shows no time slice: the card or the driver has none to set"
            )
            raise HardwareError(message, device=self.address)
        return found[1]


class SetComputeMode(HostChange, frozen=True):
    """Who may compute on a card: everybody (`Default`), one process, nobody."""

    files: ClassVar[tuple[str, ...]] = ("/dev/nvidia{minor}",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.NVIDIA,)
    undone_by: ClassVar[str] = "SetComputeMode"

    address: str
    minor: int
    mode: str = "Default"

    def __post_init__(self) -> None:
        check_address(self.address)
        check_range(self.minor, 0, 2**20 - 1, "minor")
        if self.mode not in COMPUTE_MODES:
            raise InvalidError(f"mode {self.mode!r} must be one of {', '.join(COMPUTE_MODES)}", field="mode")

    @property
    def device(self) -> str:
        """The card's address."""
        return self.address

    def describe(self) -> str:
        """One line."""
        return f"set the compute mode of {self.address} to {self.mode}"

    def is_so(self, host: Access) -> bool:
        """The program shows it."""
        return self._present(host) == self.mode

    def perform(self, host: Access) -> Effect:
        """Set it, and see that it is so."""
        before = self._present(host)
        if before == self.mode:
            return Effect(changed=False)
        _run(host, self.address, "-i", self.address, "-c", COMPUTE_MODES[self.mode])
        if self._present(host) != self.mode:
            raise HardwareError(
                f"{self.address}: the compute mode is still {self._present(host)}", device=self.address
            )
        undo = SetComputeMode(self.address, self.minor, before) if before in COMPUTE_MODES else None
        return Effect(changed=True, undo=undo)

    def _present(self, host: Access) -> str:
        asked = ("-i", self.address, "--query-gpu=compute_mode", "--format=csv,noheader")
        return _run(host, self.address, *asked).strip()


def _run(host: Access, device: str, *arguments: str) -> str:
    """What the host's program printed. It is given the host's library; nothing else of the host's is loaded.

    Both are opened first and handed over by descriptor: a link of the host means what it means on the host.
    """
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    with ExitStack() as stack:
        sweep = stack.enter_context(host.reading.sweep())
        program = stack.enter_context(sweep.open(_find(sweep, device)))
        descriptors = [program.fileno()]
        if not sweep.is_this_host and (path := find_library(sweep)) is not None:
            library = stack.enter_context(sweep.open(path))
            environment["LD_PRELOAD"] = library.proc_path
            descriptors.append(library.fileno())
        done = _start(host, device, [program.proc_path, *arguments], environment, descriptors)
    printed = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise _failed(device, done.returncode, printed + done.stderr.decode(errors="replace"))
    return printed


def _start(
    host: Access, device: str, command: list[str], environment: dict[str, str], descriptors: list[int]
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=host.limits.process,
            env=environment,
            pass_fds=descriptors,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        seconds = host.limits.process
        raise ConflictError(
            f"{device}: {_PROGRAM} did not end in {seconds:g} s: is the card in use?"
        ) from error
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise HardwareError(f"{device}: cannot run {_PROGRAM}: {reason}", device=device) from error


def _find(sweep: Sweep, device: str) -> str:
    for place in _PLACES:
        if sweep.exists(f"{place}/{_PROGRAM}"):
            return f"{place}/{_PROGRAM}"
    message = f"{device}: the host has no {_PROGRAM} in {', '.join(_PLACES)}: install the driver's programs"
    raise NotFoundError(message, kind="program", name=_PROGRAM)


def _failed(device: str, code: int, printed: str) -> Error:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    said = f"{device}: {_PROGRAM} failed with {code}: {lines[-1] if lines else 'it said nothing'}"
    if _NOT_PERMITTED.search(printed):
        return DeniedError(f"{said}: run Dray as root", what=_PROGRAM)
    return ConflictError(said) if _IN_USE.search(printed) else HardwareError(said, device=device)
