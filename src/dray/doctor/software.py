"""What we run on: Python, our own version, what is installed beside it, limits of the process."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

import msgspec

from dray import __version__
from dray.doctor.finding import Finding, fault, note, ok, warning

OLDEST: Final = (3, 11)
EXTRAS: Final = {
    "nvidia": ("nvidia-ml-py",),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
}
_PACKAGES: Final = (
    "aiohttp", "cryptography", "google-re2", "grpclib", "h2", "msgspec", "prometheus_client", "protobuf", "pyyaml",
)  # fmt: skip
_FILES: Final = 4096


class Software(msgspec.Struct, frozen=True):
    """`packages` by name, with an empty version where it is not installed. `files`: soft and hard limit."""

    dray: str
    python: tuple[int, int, int]
    system: str
    kernel: str
    packages: dict[str, str]
    files: tuple[int, int]
    uid: int
    wants_traces: bool = False


def look_at_software() -> Software:
    """Of this process, which stands for the agent's: the same installation."""
    names = (*_PACKAGES, *(name for extra in EXTRAS.values() for name in extra))
    return Software(
        dray=__version__,
        python=sys.version_info[:3],
        system=platform.machine(),
        kernel=platform.release(),
        packages={name: _version(name) for name in names},
        files=resource.getrlimit(resource.RLIMIT_NOFILE),
        uid=os.geteuid(),
        wants_traces=bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")),
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def check_software(facts: Software, *, has_nvidia: bool) -> Iterator[Finding]:
    """`has_nvidia`: the machine has NVIDIA's driver, so that the extra is wanted."""
    python = ".".join(map(str, facts.python))
    if facts.python < OLDEST:
        yield fault("python", f"Python {python}", "Dray needs 3.11 or newer", "install a newer Python")
    else:
        yield ok("python", f"Python {python} on {facts.system}, Linux {facts.kernel}")
    missing = sorted(name for name in _PACKAGES if not facts.packages.get(name))
    if missing:
        text = f"{', '.join(missing)} not installed"
        yield fault("packages", text, "Dray imports them", "install it with pip, not by copying files")
    else:
        yield ok("packages", f"dray {facts.dray}, all packages it needs are installed")
    yield from _check_extras(facts, has_nvidia)
    soft, hard = facts.files
    if 0 <= soft < _FILES:
        fix = f"ulimit -n {_FILES if hard < 0 else min(hard, _FILES)}, or LimitNOFILE= in the unit"
        why = "each plugin, driver and watch keeps files open"
        yield warning("open-files", f"{soft} files may be open at once", why, fix)
    else:
        yield ok("open-files", f"{'any number of' if soft < 0 else soft} files may be open at once")


def _check_extras(facts: Software, has_nvidia: bool) -> Iterator[Finding]:
    wanted = {"nvidia": has_nvidia, "otel": facts.wants_traces}
    why = {
        "nvidia": "this machine has NVIDIA's driver, and GPUs are asked through it",
        "otel": "OTEL_EXPORTER_OTLP_ENDPOINT is set, and traces are sent with it",
    }
    for extra, names in sorted(EXTRAS.items()):
        is_there = all(facts.packages.get(name) for name in names)
        if not is_there and wanted[extra]:
            fix = f"pip install 'dray[{extra}]'"
            yield warning(f"extra-{extra}", f"dray[{extra}] is not installed", why[extra], fix)
        elif not is_there:
            yield note(f"extra-{extra}", f"dray[{extra}] is not installed, and nothing here needs it")
        else:
            yield ok(f"extra-{extra}", f"dray[{extra}] is installed")
