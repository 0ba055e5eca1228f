from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.dra.register import DriverSockets, Registrar
from dray.errors import InvalidError
from dray.wire import dra, health
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, RegistrationStatus
from dray.wire.registration import first_known
from dray.wire.registration_state import RegistrationPhase, RegistrationState

KUBELET = Path("/var/lib/kubelet")
UID = "7c1c6c0e-5a5f-4f43-9f0e-0c9c6f1c2b11"
PLAIN = DriverSockets("tape.example.com", KUBELET)
ROLLING = DriverSockets("tape.example.com", KUBELET, UID)


def test_where_sockets_are() -> None:
    assert PLAIN.registration == KUBELET / "plugins_registry/tape.example.com-reg.sock"
    assert PLAIN.endpoint == KUBELET / "plugins/tape.example.com/dra.sock"
    assert ROLLING.registration == KUBELET / f"plugins_registry/tape.example.com-{UID}-reg.sock"
    assert ROLLING.endpoint == KUBELET / f"plugins/tape.example.com/dra-{UID}.sock"
    assert PLAIN.data_dir == ROLLING.data_dir
    assert PLAIN.warning() == ""
    assert "more than 107 bytes" in DriverSockets("t" * 60, KUBELET, UID).warning()


@pytest.mark.parametrize(
    ("driver", "directory", "instance"),
    [
        ("", KUBELET, ""),
        ("a/../b", KUBELET, ""),
        ("a" * 64, KUBELET, ""),
        ("a.io", Path("relative"), ""),
        ("a.io", KUBELET, "../x"),
        ("a.io", KUBELET, "x" * 64),
    ],
)
def test_names_that_make_no_path(driver: str, directory: Path, instance: str) -> None:
    with pytest.raises(InvalidError):
        DriverSockets(driver, directory, instance)


def test_who_takes_part_in_a_rolling_update() -> None:
    other = DriverSockets("tape.example.com", KUBELET, "new")
    assert ROLLING.is_sibling(other.registration, other.endpoint)
    assert not ROLLING.is_sibling(ROLLING.registration, ROLLING.endpoint)
    assert not ROLLING.is_sibling(PLAIN.registration, PLAIN.endpoint)
    assert not PLAIN.is_sibling(ROLLING.registration, ROLLING.endpoint)
    elsewhere = DriverSockets("tape.example.com", Path("/other"), "new")
    assert not ROLLING.is_sibling(elsewhere.registration, elsewhere.endpoint)
    assert not ROLLING.is_sibling(other.registration.with_name("x-reg.sock"), other.endpoint)
    assert not ROLLING.is_sibling(Path("x"), Path())


def test_names_that_a_process_before_may_have_left() -> None:
    former = [f"tape.example.com-{UID}-reg.sock", "tape.example.com-reg.sock", f"dra-{UID}.sock", "dra.sock"]
    others = [
        "tape.example.com-.-reg.sock",
        "tape.example.org-x-reg.sock",
        "dra-.sock",
        "dra-x",
        "other.sock",
    ]
    new = DriverSockets("tape.example.com", KUBELET, "new")
    assert [name for name in former + others if new.is_former(name)] == former
    assert [name for name in former + others if ROLLING.is_former(name)] == former[1::2]
    assert [name for name in former + others if PLAIN.is_former(name)] == former[::2]


async def test_what_a_kubelet_is_told() -> None:
    info = await Registrar(ROLLING, lambda: None).get_info(InfoRequest())
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", "tape.example.com", str(ROLLING.endpoint))
    versions = list(info.supported_versions)
    assert versions == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]
    assert first_known(versions, dra.VERSIONS) == dra.V1
    silent = await Registrar(ROLLING, lambda: None, tells_health=False).get_info(InfoRequest())
    assert not set(silent.supported_versions) & set(health.VERSIONS)


async def test_the_kubelets_verdict() -> None:
    told: list[int] = []
    registrar = Registrar(PLAIN, lambda: told.append(1))
    registrar.begin()
    assert registrar.state == RegistrationState(RegistrationPhase.WAITING)
    await registrar.notify_registration_status(RegistrationStatus(plugin_registered=True))
    await registrar.notify_registration_status(RegistrationStatus(plugin_registered=True))
    assert (registrar.state.phase, len(told)) == (RegistrationPhase.REGISTERED, 2)
    await registrar.notify_registration_status(RegistrationStatus(error="no\nthanks"))
    assert str(registrar.state) == "refused: the kubelet refused the driver: no thanks"
    async with asyncio.timeout(60):
        await registrar.wait_refused()
    registrar.begin()  # the reason stays until there is another word
    assert registrar.state.phase is RegistrationPhase.REFUSED
    await registrar.notify_registration_status(RegistrationStatus(plugin_registered=True))
    assert str(registrar.state) == "registered"
    assert len(told) == 3
