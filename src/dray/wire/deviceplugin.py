"""The Device Plugin API, v1beta1: a plugin serves `DevicePlugin`, the kubelet serves `Registration`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)
from dray.wire.service import Client, Service, Streaming, Unary

VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
DIRECTORY = "/var/lib/kubelet/device-plugins"
"""Hard-coded in the kubelet: its --root-dir does not move it."""
KUBELET_SOCKET = "kubelet.sock"
PRE_START_TIMEOUT = 30.0
"""Seconds a kubelet waits for PreStartContainer."""


class DevicePlugin(Protocol):
    """What a plugin answers. The kubelet calls from several threads at once, and again after each of its restarts."""

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        """Asked once per registration, while the plugin's own Register call is still open."""
        ...

    def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        """The whole list at once, and again after each change. When it ends the kubelet takes all devices as gone."""
        ...

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        """Only where the options say so; an error fails the pod."""
        ...

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        """At pod admission, before any container exists. There is no call that takes it back."""
        ...

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        """Only where the options say so, before each start of a container, restarts included."""
        ...


class DevicePluginClient(Client):
    """A kubelet's view of one plugin."""

    get_device_plugin_options = Unary(
        "/v1beta1.DevicePlugin/GetDevicePluginOptions", Empty, DevicePluginOptions
    )
    list_and_watch = Streaming("/v1beta1.DevicePlugin/ListAndWatch", Empty, ListAndWatchResponse)
    get_preferred_allocation = Unary(
        "/v1beta1.DevicePlugin/GetPreferredAllocation",
        PreferredAllocationRequest,
        PreferredAllocationResponse,
    )
    allocate = Unary("/v1beta1.DevicePlugin/Allocate", AllocateRequest, AllocateResponse)
    pre_start_container = Unary(
        "/v1beta1.DevicePlugin/PreStartContainer", PreStartContainerRequest, PreStartContainerResponse
    )


class DevicePluginService(Service[DevicePlugin]):
    """Makes a plugin servable."""

    tables = (DevicePluginClient,)


class DevicePluginRegistration(Protocol):
    """What a kubelet answers on `kubelet.sock`."""

    async def register(self, request: RegisterRequest) -> Empty:
        """A plugin wants in. The kubelet calls it back before this returns, so the plugin must be serving."""
        ...


class DevicePluginRegistrationClient(Client):
    """A plugin's view of the kubelet."""

    register = Unary("/v1beta1.Registration/Register", RegisterRequest, Empty)


class DevicePluginRegistrationService(Service[DevicePluginRegistration]):
    """Makes a kubelet's registration servable."""

    tables = (DevicePluginRegistrationClient,)
