"""Telling systemd, where it started us (`Type=notify`): one datagram to the socket that it names."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Final

from dray.runtime.logs import get_log

_log = get_log("up")

SUPERVISED: Final = "DRAY_SUPERVISED"
"""In the environment of a `dray up` that another process of ours starts again."""


def notify(text: str, environment: Mapping[str, str] = os.environ) -> None:
    """`READY=1`, `STOPPING=1`, `STATUS=…`. Does nothing where nobody listens: being told is systemd's wish, not ours."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(1.0)
            sender.sendto(text.encode(), address)
    except OSError as error:
        _log.warning("systemd could not be told", text=text, error=str(error))


def supervisor_of(environment: Mapping[str, str] = os.environ) -> str:
    """Who starts this process again when it dies: `dray` (`dray up --detach`), `systemd`, or nobody."""
    if environment.get(SUPERVISED):
        return "dray"
    return "systemd" if environment.get("INVOCATION_ID") and environment.get("NOTIFY_SOCKET") else ""
