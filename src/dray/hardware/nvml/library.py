"""Find libnvidia-ml.so.1 below a host's root, and the bindings that call it. Nothing here is loaded before it is asked for."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from dray.errors import Error, UnavailableError
from dray.hardware.host_root import Place
from dray.hardware.shared_libraries import read_loader_cache
from dray.hardware.sweep import Sweep

LIBRARY: Final = "libnvidia-ml.so.1"
DIRECTORIES: Final = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/local/nvidia/lib64",
    "/opt/nvidia/lib64",
    "/usr/lib",
)
BINDINGS: Final = "pynvml"
MISSING: Final = "the Python package nvidia-ml-py is not installed: install dray[nvidia]"


def find_library(root: Place) -> str | None:
    """Where a host has the library, as the host names it; None where it has none."""
    with root.sweep() as sweep:
        return next((path for path in _places(sweep) if _is_there(sweep, path)), None)


def _places(sweep: Sweep) -> Iterator[str]:
    """As the host's own loader has it, then where distributions put it."""
    with suppress(Error):  # a cache that nobody can read
        yield from (library.path for library in read_loader_cache(sweep) if library.name == LIBRARY)
    yield from (f"{directory}/{LIBRARY}" for directory in DIRECTORIES)


def _is_there(sweep: Sweep, path: str) -> bool:
    try:
        return sweep.exists(path)
    except Error:  # a loop of links, a file for a directory: nothing that could be loaded
        return False


def has_driver(root: Place) -> bool:
    """Whether NVIDIA's kernel module is loaded: without it the library answers nothing."""
    with root.sweep() as sweep:
        return sweep.exists("/proc/driver/nvidia/version")


def load(root: Place) -> Any:
    """The bindings with the host's library behind them. UnavailableError, which says what is missing.

    A process has one library: the first that was loaded stays, whatever root is asked for later.
    """
    try:
        bindings: Any = importlib.import_module(BINDINGS)
    except ImportError as error:
        raise UnavailableError(MISSING) from error
    if bindings.nvmlLib is None:
        bindings.nvmlLib = _open(root)
    return bindings


def _open(root: Place) -> ctypes.CDLL:
    path = find_library(root)
    name = LIBRARY if path is None else str(root.path / path.lstrip("/"))
    if path is None and not root.is_this_host:
        raise UnavailableError(
            f"{LIBRARY} was not found below {root.path}: install NVIDIA's driver on the host, or correct --host-root"
        )
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise UnavailableError(f"{name} cannot be loaded ({error}): install NVIDIA's driver") from error
