"""kubelet.sock: where device plugins ask to be taken."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.api.names import is_extended_resource_name
from dray.api.quoting import quote
from dray.errors import ConflictError, Error, InvalidError, UnavailableError
from dray.hardware.change.files import CONTAINER_FILE
from dray.hardware.host_root import HostRoot
from dray.hardware.selinux import SelinuxState, read_selinux
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.handler import invalid_name
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.wire.deviceplugin import KUBELET_SOCKET, VERSION, DevicePluginRegistrationService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from dray.wire.limits import Limits
from dray.wire.serve import serve
from dray.wire.sockets import dial
from dray.wire.status import Code, StatusError, cut

_log = get_log("kubelet.plugins")

DIRECTORY_MODE = 0o750
PROBE_TIMEOUT = 1.0
LIMITS = Limits(connections=512, per_process=64)
"""Of connections: a process that floods us leaves room for others."""
_UNHEALTHY = (
    "device registration error: device plugin registration gRPC server failed "
    "and no device plugins can register"
)


class Registration:
    """Answers Register. Others are answered while one plugin does not let itself be called back."""

    def __init__(self, directory: Path, connections: Connections, metrics: KubeletMetrics) -> None:
        self._directory = directory
        self._connections = connections
        self._metrics = metrics
        self._serving = False

    @property
    def path(self) -> Path:
        """Where it is served."""
        return self._directory / KUBELET_SOCKET

    async def register(self, request: RegisterRequest) -> Empty:
        """Take the plugin, which is called back before this returns. All refusals have the code UNKNOWN."""
        resource = request.resource_name
        self._metrics.registration(resource)
        try:
            if request.version != VERSION:
                raise InvalidError(
                    f"requested API version {quote(request.version)} is not supported by kubelet. "
                    f"Supported version is [{quote(VERSION)}]"
                )
            if not is_extended_resource_name(resource):
                raise InvalidError(invalid_name(resource))
            await self._connections.connect(resource, self._socket(request.endpoint))
        except Error as error:
            _log.warning("device plugin refused", resource=cut(resource), error=cut(str(error)))
            raise StatusError(Code.UNKNOWN, str(error)) from error
        return Empty()

    def check(self) -> str:
        """For /healthz: what is wrong, or nothing; fine before it is served and after."""
        if not self._serving or self.path.is_socket():
            return ""
        return f"{_UNHEALTHY}: {self.path} is gone"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve while entered. All sockets in the directory are removed first: plugins see that, and register again."""
        await _check_alone(self.path)
        _remove_sockets(self._directory)
        async with serve(
            self.path, [DevicePluginRegistrationService(self)], directory_mode=DIRECTORY_MODE, limits=LIMITS
        ):
            _label(self._directory)
            self._serving = True
            try:
                yield
            finally:
                self._serving = False

    def _socket(self, endpoint: str) -> Path:
        """Below the directory also where it begins with a slash."""
        return Path(os.path.normpath(f"{self._directory}/{endpoint}"))


def _label(directory: Path) -> None:
    """Plugins in containers may use the directory where SELinux is on. A failure is told; a policy may allow it all the same."""
    if read_selinux(HostRoot(Path("/"))) is SelinuxState.ABSENT:
        return
    try:
        os.setxattr(directory, "security.selinux", CONTAINER_FILE.encode() + b"\0")
    except OSError as error:
        _log.warning("cannot label the directory for containers", directory=str(directory), error=str(error))


async def _check_alone(path: Path) -> None:
    """Two kubelets in one directory would take each other's plugins away."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            (await dial(path)).close()
    except UnavailableError:
        return
    except TimeoutError:  # its queue is full, so it is there
        pass
    raise ConflictError(f"{str(path)!r} is in use by another kubelet: stop it first")


def _remove_sockets(directory: Path) -> None:
    """Other files stay: the checkpoint is among them."""
    try:
        for entry in os.scandir(directory):
            if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                Path(entry.path).unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise from_os_error(error, "remove old sockets from", str(directory)) from error
