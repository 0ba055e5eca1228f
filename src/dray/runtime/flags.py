"""Flags of every program that serves pages: addresses, and who may read metrics. Imports little: every `dray --help` comes by."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.runtime.pages import Readers

METRICS_ADDRESS: Final = "127.0.0.1:9614"


def add_metrics_readers(parser: argparse._ActionsContainer) -> None:
    """Who may read what is served at `--metrics-address`; probes need neither."""
    parser.add_argument(
        "--metrics-token-file",
        type=Path,
        metavar="F",
        help="answer only who sends the token in this file (Authorization: Bearer), /healthz and /readyz aside; nobody "
        "while there is none (default: everybody who can connect)",
    )
    parser.add_argument(
        "--metrics-allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="a name, beside localhost and any address, by which the metrics' server may be called; may be repeated",
    )


def read_metrics_readers(arguments: argparse.Namespace) -> Readers:
    """What `add_metrics_readers` declared."""
    from dray.runtime.pages import Readers

    file = arguments.metrics_token_file
    names = check_allowed(arguments.metrics_allow_host)
    return Readers(names, file.absolute() if file is not None else None)


def check_allowed(hosts: Sequence[str]) -> tuple[str, ...]:
    """What `--allow-host` gave. InvalidError where one is no HOST and no HOST:PORT."""
    from dray.runtime.http_hosts import host_only

    return tuple(host for host in hosts if host_only(host))


def parse_address(text: str, flag: str = "--metrics-address") -> tuple[str, int] | None:
    """`host:port` or `[v6]:port` to bind to; None for `none`. InvalidError where it is neither."""
    if text == "none":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidError(
            f"{flag} {text!r} must be HOST:PORT, like {METRICS_ADDRESS}, or none",
            field=flag,
        )
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)
