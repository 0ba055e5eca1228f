from __future__ import annotations

import pytest

from dray.api.kubevirt import permanent
from dray.api.kubevirt.permanent import PermanentNode, PermanentSocket
from dray.api.kubevirt.types import (
    ConfidentialCompute,
    Configuration,
    DeveloperConfiguration,
    Hypervisor,
    PersistentReservationConfiguration,
    Tdx,
    TdxAttestation,
)


def _gates(*on: str, off: tuple[str, ...] = ()) -> DeveloperConfiguration:
    return DeveloperConfiguration(feature_gates=on, disabled_feature_gates=off)


NO_SEV = ("WorkloadEncryptionSEV",)


def test_the_nodes_that_are_always_there() -> None:
    assert permanent.permanent_nodes(Configuration()) == (
        PermanentNode("kvm", "/dev/kvm", pre_open=False),
        PermanentNode("tun", "/dev/net/tun", pre_open=True),
        PermanentNode("vhost-net", "/dev/vhost-net", pre_open=True),
        PermanentNode("sev", "/dev/sev", pre_open=True),
    )


@pytest.mark.parametrize(
    ("developer", "names"),
    [
        (_gates(off=NO_SEV), ["kvm", "tun", "vhost-net"]),
        (_gates("VSOCK", off=NO_SEV), ["kvm", "tun", "vhost-net", "vhost-vsock"]),
        (_gates("VSOCK"), ["kvm", "tun", "vhost-net", "sev", "vhost-vsock"]),
        (_gates("IOMMUFD", "WorkloadEncryptionTDX", off=NO_SEV), ["kvm", "tun", "vhost-net"]),
    ],
)
def test_nodes_by_gate(developer: DeveloperConfiguration, names: list[str]) -> None:
    nodes = permanent.permanent_nodes(Configuration(developer_configuration=developer))
    assert [node.name for node in nodes] == names


@pytest.mark.parametrize(
    ("hypervisors", "gate", "path"),
    [
        ((), True, "/dev/kvm"),
        (("kvm",), True, "/dev/kvm"),
        (("hyperv-direct",), True, "/dev/mshv"),
        (("hyperv-direct",), False, "/dev/kvm"),
        (("kvm", "hyperv-direct"), True, "/dev/kvm"),
    ],
)
def test_the_hypervisor(hypervisors: tuple[str, ...], gate: bool, path: str) -> None:
    configuration = Configuration(
        hypervisors=tuple(Hypervisor(name=name) for name in hypervisors),
        developer_configuration=_gates("ConfigurableHypervisor") if gate else None,
    )
    assert permanent.permanent_nodes(configuration)[0].path == path


@pytest.mark.parametrize(
    ("attestation", "path", "required"),
    [
        (None, "/var/run/tdx-qgs/qgs.socket", False),
        (TdxAttestation(enforced=True), "/var/run/tdx-qgs/qgs.socket", True),
        (TdxAttestation(enforced=False, qgs_socket_path="/run/q.sock"), "/run/q.sock", False),
    ],
)
def test_tdx(attestation: TdxAttestation | None, path: str, required: bool) -> None:
    compute = ConfidentialCompute(tdx=Tdx(attestation=attestation))
    assert permanent.permanent_sockets(Configuration(confidential_compute=compute)) == ()
    on = Configuration(confidential_compute=compute, developer_configuration=_gates("WorkloadEncryptionTDX"))
    assert permanent.permanent_sockets(on) == (
        PermanentSocket("tdx", path, required, owned=False, capacity_key="tdx"),
    )


def test_pr_helper() -> None:
    reservation = PersistentReservationConfiguration(enabled=True)
    assert permanent.permanent_sockets(Configuration(persistent_reservation_configuration=reservation)) == (
        PermanentSocket(
            "pr-helper", "/var/run/kubevirt/daemons/pr/pr-helper.sock", required=True, owned=True
        ),
    )


def test_iommufd() -> None:
    assert not permanent.has_iommufd(Configuration())
    assert permanent.has_iommufd(Configuration(developer_configuration=_gates("IOMMUFD")))


def test_how_many() -> None:
    assert permanent.max_devices(Configuration()) == 1000
    assert permanent.max_devices(Configuration(virtual_machine_instances_per_node=7)) == 7


def test_every_permanent_name_is_reserved() -> None:
    everything = Configuration(
        developer_configuration=_gates("VSOCK", "WorkloadEncryptionTDX", "PersistentReservation")
    )
    names = [node.name for node in permanent.permanent_nodes(everything)]
    names += [socket.name for socket in permanent.permanent_sockets(everything)]
    assert len(names) == 7
    assert {permanent.RESOURCE_PREFIX + name for name in names} <= permanent.RESERVED_RESOURCES
