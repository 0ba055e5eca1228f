from __future__ import annotations

import socket
from pathlib import Path

from msgspec.structs import replace

from dray.doctor.places import Places, State
from dray.doctor.sockets import Kubelet, Socket, Sockets, check_sockets, look_at_sockets
from dray.runtime.files.checkpoint_format import Format
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import DRA_PLUGIN, RegistrationService
from dray.wire.serve import serve
from tests.doctor.findings_text import text_of, told
from tests.small_kubelet import SmallKubelet


class Driver:
    async def get_info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(type=DRA_PLUGIN, name="gpu.example.com", supported_versions=["v1.DRAPlugin"])

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        return RegistrationStatusResponse()


def _left_behind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()


async def test_a_live_kubelet_a_driver_and_what_a_kill_left(tmp_path: Path) -> None:
    kubelet = SmallKubelet(tmp_path / "device-plugins")
    kubelet.directory.mkdir()
    kubelet.healthy = {"example.com/gpu": ["gpu-0", "gpu-1"]}
    kubelet.pods = {"web": {"example.com/gpu": ["gpu-0"]}}
    registry = tmp_path / "plugins_registry"
    registry.mkdir()
    _left_behind(registry / "old-reg.sock")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "sockets").write_bytes(Format(bytes).encode(b'{"sockets": ["old.sock"]}'))
    places = Places(kubelet_dir=tmp_path, device_plugin_dir=kubelet.directory, state_dir=tmp_path / "state")
    async with kubelet.running(), serve(registry / "gpu-reg.sock", [RegistrationService(Driver())]):
        _left_behind(kubelet.directory / "old.sock")
        found = await look_at_sockets(places)
    assert {one.name: one.versions for one in found.registry if one.name} == {
        "gpu.example.com": ("v1.DRAPlugin",)
    }
    assert found.kubelet.holders == {"example.com/gpu gpu-0": "default/web"}
    findings = list(check_sockets(found))
    assert {("kubelet-reachable", "ok"), ("kubelet-registration", "ok"), ("stale-socket", "warning")} == told(
        findings
    )
    stale = text_of(findings, "stale-socket")
    assert f"rm {registry / 'old-reg.sock'}" in stale
    assert f"start dray agent, or rm {kubelet.directory / 'old.sock'}" in stale


async def test_no_kubelet_and_a_silent_one(tmp_path: Path) -> None:
    places = Places(kubelet_dir=tmp_path, device_plugin_dir=tmp_path / "device-plugins")
    assert told(check_sockets(await look_at_sockets(places))) == {("kubelet-reachable", "fault")}
    (tmp_path / "pod-resources").mkdir()
    _left_behind(tmp_path / "pod-resources" / "kubelet.sock")
    (tmp_path / "device-plugins").mkdir()
    _left_behind(tmp_path / "device-plugins" / "kubelet.sock")
    found = await look_at_sockets(places)
    assert found.kubelet.state is State.BROKEN
    assert told(check_sockets(found)) == {
        ("kubelet-reachable", "fault"),
        ("kubelet-registration", "fault"),
        ("stale-socket", "ok"),
    }


def test_who_is_there_twice() -> None:
    one = Socket("/d/kubevirt-gpu.sock", "virt-handler (pid 1)", 1)
    driver = Socket("/r/a.sock", "a (pid 5)", 5, DRA_PLUGIN, "gpu.example.com")
    facts = Sockets(
        (one, replace(one, path="/d/dray-gpu.sock", listener="dray (pid 2)", pid=2)),
        (driver, replace(driver, path="/r/b.sock", pid=6)),
        Kubelet(State.THERE, "", ("example.com/gpu", "example.com/nic")),
    )
    findings = list(check_sockets(facts))
    assert {("plugin-twice", "warning"), ("driver-twice", "note")} <= told(findings)
    assert "virt-handler (pid 1) on kubevirt-gpu.sock and by dray (pid 2)" in text_of(
        findings, "plugin-twice"
    )
    assert "nic" not in text_of(findings, "plugin-twice")


def test_without_rights() -> None:
    facts = Sockets(kubelet=Kubelet(State.DENIED), denied=("/var/lib/kubelet/device-plugins",))
    found = list(check_sockets(facts))
    assert told(found) == {("sockets", "note"), ("kubelet-reachable", "note")}
    assert "run as root" in text_of(found, "sockets")
