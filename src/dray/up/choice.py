"""What `dray up` chooses where the user does not: what runs containers, and which ports it listens on."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dray.apiserver.http.server import Address
from dray.client.kubeconfig import find_access
from dray.errors import ConflictError, DeniedError, Error, InvalidError, UnavailableError
from dray.processes.kubelet import CRI, PROCESS, RUNC

AUTO: Final = "auto"
RUNTIMES: Final = (AUTO, RUNC, CRI, PROCESS)
API_PORT: Final = 6443
_STEP: Final = 20
_STEPS: Final = 20
_PLACES: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PLAIN: Final = "plain processes of this machine, not isolated from it"


@dataclass(frozen=True, slots=True)
class ChosenRuntime:
    """`why` is for people: one line, without a dot."""

    name: str
    why: str


def choose_runtime(
    asked: str,
    before: str = "",
    *,
    is_root: bool | None = None,
    find: Callable[[], str | None] | None = None,
) -> ChosenRuntime:
    """runc for root where there is one; else plain processes, and why. `before` is what ran the containers that are there:
    it stays, unless another one is asked for. InvalidError for a name that nobody knows."""
    if asked not in RUNTIMES:
        raise InvalidError(f"--runtime {asked!r} must be one of {', '.join(RUNTIMES)}", field="--runtime")
    if asked != AUTO:
        return ChosenRuntime(asked, _PLAIN if asked == PROCESS else "as asked for")
    if before in RUNTIMES and before != AUTO:
        why = f"{_PLAIN}, as before (--runtime chooses another)" if before == PROCESS else "as before"
        return ChosenRuntime(before, why)
    if not (os.geteuid() == 0 if is_root is None else is_root):
        return ChosenRuntime(PROCESS, f"{_PLAIN}: real containers need root")
    found = (find or _find_runc)()
    if found is None:
        return ChosenRuntime(PROCESS, f"{_PLAIN}: there is no runc (install it for real containers)")
    return ChosenRuntime(RUNC, f"containers of {found}")


def _find_runc() -> str | None:
    return shutil.which("runc", path=f"{os.environ.get('PATH', '')}:{_PLACES}")


def choose_address(listen: Address | None, kubeconfig: Path) -> Address:
    """Where the API server listens: as asked; else as it did before, so that copies of its kubeconfig stay good; else
    6443, or any port that is free. ConflictError where the port of before is taken."""
    if listen is not None:
        _check(listen, "--listen: give another one")
        return listen
    before = _port_of(kubeconfig)
    if before is None:
        return Address("127.0.0.1", free_port(API_PORT))
    _check(
        Address("127.0.0.1", before),
        "kubeconfigs of this data directory name it; stop who has it, or give --listen 127.0.0.1:0 for a new one",
    )
    return Address("127.0.0.1", before)


def free_port(*preferred: int) -> int:
    """The first of these that is free on loopback, else one a little above the last, else any.

    Ask right before it is used: nobody keeps it for you.
    """
    above: Sequence[int] = ()
    if preferred:
        above = range(preferred[-1], preferred[-1] + _STEP * _STEPS, _STEP)
    for port in (*preferred, *above):
        if 0 < port < 65536 and _why_taken(Address("127.0.0.1", port)) is None:
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _port_of(kubeconfig: Path) -> int | None:
    try:
        return urlsplit(find_access(kubeconfig).server).port
    except (Error, ValueError):
        return None


def _check(address: Address, advice: str) -> None:
    reason = _why_taken(address) if address.port else None
    if reason is None:
        return
    text = f"cannot listen on {address.host}:{address.port}: {os.strerror(reason).lower()}; {advice}"
    if reason == errno.EADDRINUSE:
        raise ConflictError(text)
    raise DeniedError(text) if reason == errno.EACCES else UnavailableError(text)


def _why_taken(address: Address) -> int | None:
    """The error's number. Asked as the server will: connections of before that still linger do not count."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
            probe.listen(1)
        except OSError as error:
            return error.errno or errno.EADDRNOTAVAIL
    return None
