"""Why an address cannot be listened on."""

from __future__ import annotations

import socket

import pytest

from dray.errors import UnavailableError
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.ports import is_port_taken


async def test_a_port_of_somebody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UnavailableError) as caught:
            async with serve_metrics(Metrics(), port=port):
                pass
    text = f"cannot listen on 127.0.0.1:{port}: address already in use; choose another address or port"
    assert str(caught.value) == text
    assert is_port_taken(caught.value)


async def test_an_address_of_no_machine() -> None:
    with pytest.raises(UnavailableError, match=r"cannot listen on no-such-host\.invalid:0: ") as caught:
        async with serve_metrics(Metrics(), host="no-such-host.invalid"):
            pass
    assert not is_port_taken(caught.value)


def test_an_error_of_another_kind() -> None:
    assert not is_port_taken(UnavailableError("the server is away"))
