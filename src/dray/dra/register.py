"""How a kubelet finds the driver: the names of its sockets, and what the registration socket answers."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.api.names import driver_name
from dray.errors import InvalidError
from dray.runtime.logs import get_log
from dray.wire import dra, health
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import DRA_PLUGIN
from dray.wire.registration_state import (
    REGISTERED,
    STARTING,
    WAITING,
    RegistrationPhase,
    RegistrationState,
)
from dray.wire.socket_files import PATH_BYTES

_log = get_log("dra")

REGISTRY: Final = "plugins_registry"
PLUGINS: Final = "plugins"
_is_instance: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9]{0,62}").fullmatch


@dataclass(frozen=True, slots=True)
class DriverSockets:
    """Where one driver listens. `kubelet_dir` has the same path for us and for the kubelet.

    With an `instance` (the pod's UID) the old and the new process of a rolling update have sockets of their own, and the
    kubelet (1.33 and newer) calls the one that registered last. Without one there is one process at a time.
    """

    driver: str
    kubelet_dir: Path
    instance: str = ""

    def __post_init__(self) -> None:
        if faults := driver_name(self.driver):
            raise InvalidError(f"the driver's name {self.driver!r} is invalid: {faults[0]}", field="driver")
        if self.instance and not _is_instance(self.instance):
            raise InvalidError(
                f"the instance {self.instance!r} must be letters, digits and '-', 63 at most: give the pod's UID",
                field="instance",
            )
        if not self.kubelet_dir.is_absolute():
            raise InvalidError(f"the kubelet's directory {str(self.kubelet_dir)!r} must be absolute")

    @property
    def registry(self) -> Path:
        """Where a kubelet looks for registration sockets, those in directories below included."""
        return self.kubelet_dir / REGISTRY

    @property
    def data_dir(self) -> Path:
        """What the instances of the driver share."""
        return self.kubelet_dir / PLUGINS / self.driver

    @property
    def registration(self) -> Path:
        """The socket that a kubelet finds."""
        return self.registry / _named(self.driver, self.instance)

    @property
    def endpoint(self) -> Path:
        """The socket that it is sent to."""
        return self.data_dir / (f"dra-{self.instance}.sock" if self.instance else "dra.sock")

    def is_sibling(self, registration: Path, endpoint: Path) -> bool:
        """Whether a process with these sockets takes part in a rolling update with ours."""
        other = endpoint.name.removeprefix("dra-").removesuffix(".sock")
        return bool(
            self.instance
            and _is_instance(other)
            and other != self.instance
            and endpoint == self.data_dir / f"dra-{other}.sock"
            and registration.name == _named(self.driver, other)
        )

    def is_former(self, name: str) -> bool:
        """Whether this may be the name of a socket of another process of the driver: before us, or in a rolling update."""
        if name in (self.registration.name, self.endpoint.name):
            return False
        if name in (_named(self.driver, ""), "dra.sock"):
            return True
        for prefix, suffix in ((f"{self.driver}-", "-reg.sock"), ("dra-", ".sock")):
            if name.startswith(prefix) and name.endswith(suffix):
                return bool(_is_instance(name[len(prefix) : -len(suffix)]))
        return False

    def warning(self) -> str:
        """Why a kubelet may not reach the sockets, or nothing. Ours reaches them."""
        longest = max((self.registration, self.endpoint), key=lambda path: len(os.fsencode(path)))
        if len(os.fsencode(longest)) <= PATH_BYTES:
            return ""
        return f"{longest} has more than {PATH_BYTES} bytes: a kubelet cannot connect to it; shorten the driver's name"


def _named(driver: str, instance: str) -> str:
    return f"{driver}-{instance}-reg.sock" if instance else f"{driver}-reg.sock"


class Registrar:
    """Answers on the registration socket for the driver's whole life. A kubelet asks when it finds the socket, and again
    after its own restart, which nothing else tells: `on_registered` is called each time, and returns at once.
    """

    def __init__(
        self, sockets: DriverSockets, on_registered: Callable[[], None], *, tells_health: bool = True
    ) -> None:
        self._sockets = sockets
        self._on_registered = on_registered
        # A kubelet takes the first version of the list that it knows. Before 1.37 it knows v1alpha1 of health alone.
        self._versions = (*dra.VERSIONS, *(health.VERSIONS if tells_health else ()))
        self._refused = asyncio.Event()
        self.state = STARTING

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        """Who we are and where to call us."""
        return PluginInfo(
            type=DRA_PLUGIN,
            name=self._sockets.driver,
            endpoint=str(self._sockets.endpoint),
            supported_versions=self._versions,
        )

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        """The kubelet's verdict. An error in the answer would undo a registration."""
        if request.plugin_registered:
            _log.info("registered", driver=self._sockets.driver, endpoint=self._sockets.endpoint)
            self.state = REGISTERED
            self._refused.clear()
            self._on_registered()
            return RegistrationStatusResponse()
        why = f"the kubelet refused the driver: {' '.join(request.error.split())[:1000] or 'it does not say why'}"
        if self.state.reason != why:
            _log.error("refused", driver=self._sockets.driver, error=why)
        self.state = RegistrationState(RegistrationPhase.REFUSED, why)
        self._refused.set()
        return RegistrationStatusResponse()

    async def wait_refused(self) -> None:
        """Return once the kubelet's last word is a refusal."""
        await self._refused.wait()

    def begin(self) -> None:
        """Call when the socket is made anew: what a kubelet said about the old one means nothing."""
        self._refused.clear()
        if self.state.phase is not RegistrationPhase.REFUSED:
            self.state = WAITING
