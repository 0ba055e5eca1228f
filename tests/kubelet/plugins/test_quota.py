from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.kubelet.devices.known import GRACE
from dray.kubelet.plugins.quota import (
    DEVICES_OF_ANY,
    DEVICES_OF_NODE,
    DEVICES_OF_SOCKET,
    Quota,
    most_devices,
)

A, B, C = Path("/a"), Path("/b"), Path("/c")


def test_one_socket_has_its_share_and_the_same_name_costs_nothing() -> None:
    quota = Quota(of_one=2, of_all=10)
    for name in ("x", "y", "x", "y"):
        quota.take(A, name, 0.0)
    with pytest.raises(
        UnavailableError, match=r"/a has brought 2 resources within 5 minutes: use another socket"
    ):
        quota.take(A, "z", 1.0)
    quota.take(B, "z", 1.0)


def test_all_together_have_a_limit() -> None:
    quota = Quota(of_one=2, of_all=3)
    for path, name in ((A, "x"), (A, "y"), (B, "z")):
        quota.take(path, name, 0.0)
    with pytest.raises(UnavailableError, match="no more can be taken now"):
        quota.take(C, "w", 1.0)
    quota.take(A, "x", 1.0)


def test_names_are_forgotten_with_the_grace() -> None:
    quota = Quota(of_one=1, of_all=1)
    quota.take(A, "x", 0.0)
    quota.take(A, "x", 100.0)
    with pytest.raises(UnavailableError):
        quota.take(B, "y", 99.0 + GRACE)
    quota.take(B, "y", 100.0 + GRACE)


@pytest.mark.parametrize(
    ("of_socket", "of_node", "most"),
    [
        (0, 0, DEVICES_OF_SOCKET),
        (1000, 5000, DEVICES_OF_SOCKET - 1000),
        (0, DEVICES_OF_NODE - 1000, 1000),
        (DEVICES_OF_SOCKET, DEVICES_OF_SOCKET, DEVICES_OF_ANY),
        (0, DEVICES_OF_NODE + 7, DEVICES_OF_ANY),
    ],
)
def test_devices_of_all_resources_count_together(of_socket: int, of_node: int, most: int) -> None:
    assert most_devices(of_socket, of_node) == most
