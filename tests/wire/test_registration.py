from __future__ import annotations

from pathlib import Path

from dray.wire import dra
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginRegistrationClient, DevicePluginRegistrationService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import RegistrationClient, RegistrationService, first_known
from dray.wire.serve import serve


def test_the_plugins_order_decides() -> None:
    assert first_known(["v1beta1.DRAPlugin", "v1.DRAPlugin"], dra.VERSIONS) == "v1beta1.DRAPlugin"
    assert first_known(["v9.DRAPlugin", "v1.DRAPlugin"], dra.VERSIONS) == "v1.DRAPlugin"
    assert first_known(["v1.DRAResourceHealth", "v1alpha1.DRAPlugin"], dra.VERSIONS) is None
    assert first_known([], dra.VERSIONS) is None


class Registrar:
    """A plugin's registration socket, and a kubelet's."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(type="DRAPlugin", name="d", endpoint="/x", supported_versions=dra.VERSIONS)

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        self.told.append(request.error)
        return RegistrationStatusResponse()

    async def register(self, request: RegisterRequest) -> Empty:
        self.told.append(request.resource_name)
        return Empty()


async def test_both_kinds_of_registration(socket_path: Path) -> None:
    registrar = Registrar()
    services = [RegistrationService(registrar), DevicePluginRegistrationService(registrar)]
    async with serve(socket_path, services), connect(socket_path) as channel:
        client = RegistrationClient(channel)
        assert (await client.get_info(InfoRequest())).supported_versions == list(dra.VERSIONS)
        await client.notify_registration_status(RegistrationStatus(error="name taken"))
        await DevicePluginRegistrationClient(channel).register(RegisterRequest(resource_name="a/b"))
    assert registrar.told == ["name taken", "a/b"]
