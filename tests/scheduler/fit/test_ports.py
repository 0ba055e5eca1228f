"""Host ports."""

from __future__ import annotations

import pytest

from dray.scheduler.fit.ports import HostPort, UsedPorts, host_ports, refused
from tests.scheduler.objects import make_pod

ALL = HostPort("0.0.0.0", "TCP", 80)
ONE = HostPort("10.0.0.1", "TCP", 80)


@pytest.mark.parametrize(
    ("used", "wanted", "fits"),
    [
        (ALL, ALL, False),
        (ALL, ONE, False),
        (ONE, ALL, False),
        (ONE, ONE, False),
        (ONE, ONE._replace(address="10.0.0.2"), True),
        (ALL, ALL._replace(protocol="UDP"), True),
        (ALL, ALL._replace(port=81), True),
    ],
)
def test_conflicts(used: HostPort, wanted: HostPort, fits: bool) -> None:
    found = refused([wanted], UsedPorts([used]))
    assert (found is None) is fits
    if found is not None:
        assert (
            found.can_resolve and str(found) == "node(s) didn't have free ports for the requested pod ports"
        )


def test_a_port_is_free_when_the_last_pod_gave_it_back() -> None:
    used = UsedPorts([ALL, ALL, ONE])
    assert len(used) == 2
    used.remove(ALL)
    assert used.conflicts(ALL._replace(address="10.0.0.9"))
    used.remove(ALL)
    assert not used.conflicts(ALL._replace(address="10.0.0.9")) and used.conflicts(ONE)
    used.remove(ONE)
    assert len(used) == 0 and not used.conflicts(ALL)


def test_which_ports_a_pod_has() -> None:
    def container(port: int, **more: str) -> dict[str, object]:
        return {
            "name": "c",
            "ports": [{"containerPort": 1, "hostPort": port, "hostIP": "", "protocol": ""}],
            **more,
        }

    pod = make_pod(
        containers=[container(1), container(0)],
        initContainers=[container(2), container(3, restartPolicy="Always")],
    )
    assert host_ports(pod) == (HostPort("0.0.0.0", "TCP", 3), HostPort("0.0.0.0", "TCP", 1))
    assert refused(host_ports(pod), UsedPorts()) is None
