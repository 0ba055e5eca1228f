"""The kubelet's plugin watcher, as sockets in `plugins_registry` see it: who are you, and: you are in."""

from __future__ import annotations

from pathlib import Path

from dray.testing.check.program import is_socket
from dray.wire.connect import connect
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo, RegistrationStatus
from dray.wire.registration import GET_INFO_TIMEOUT, NOTIFY_TIMEOUT, RegistrationClient


def registration_sockets(registry: Path) -> list[Path]:
    """Those that a kubelet looks at: also in directories below, but no hidden ones."""
    return [path for path in sorted(registry.rglob("*")) if is_socket(path) and not path.name.startswith(".")]


async def get_info(path: Path) -> PluginInfo:
    """With the kubelet's own deadline."""
    async with connect(path) as channel:
        return await RegistrationClient(channel).get_info(InfoRequest(), timeout=GET_INFO_TIMEOUT)


async def notify(path: Path) -> None:
    """Tell it that it is registered."""
    async with connect(path) as channel:
        status = RegistrationStatus(plugin_registered=True)
        await RegistrationClient(channel).notify_registration_status(status, timeout=NOTIFY_TIMEOUT)
