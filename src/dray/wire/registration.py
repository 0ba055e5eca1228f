"""Registration through the kubelet's plugin watcher: the plugin serves, the kubelet that found its socket calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.service import Client, Service, Unary

DRA_PLUGIN = "DRAPlugin"
DEVICE_PLUGIN = "DevicePlugin"
CSI_PLUGIN = "CSIPlugin"
GET_INFO_TIMEOUT = 1.0
"""Seconds a kubelet waits for GetInfo."""
NOTIFY_TIMEOUT = 5.0
"""Seconds it waits for NotifyRegistrationStatus; a failure there undoes the registration."""


class Registration(Protocol):
    """What a plugin answers on its socket in `plugins_registry`."""

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        """Asked when the socket appears, after each kubelet restart, and again after each failed registration."""
        ...

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        """The kubelet's verdict. After a refusal it tries again with growing pauses."""
        ...


class RegistrationClient(Client):
    """A kubelet's view of a plugin's registration socket."""

    get_info = Unary("/pluginregistration.Registration/GetInfo", InfoRequest, PluginInfo)
    notify_registration_status = Unary(
        "/pluginregistration.Registration/NotifyRegistrationStatus",
        RegistrationStatus,
        RegistrationStatusResponse,
    )


class RegistrationService(Service[Registration]):
    """Makes a plugin's registration servable."""

    tables = (RegistrationClient,)


def first_known(supported: Iterable[str], known: Collection[str]) -> str | None:
    """The version a kubelet takes: the first of the *plugin's* list that it knows, not the newest."""
    return next((version for version in supported if version in known), None)
