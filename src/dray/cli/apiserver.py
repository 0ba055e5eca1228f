"""`dray apiserver`: the Kubernetes API for this machine, kept in one directory."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.feature_flags import add_feature_gates

if TYPE_CHECKING:
    from dray.apiserver.access.identity import Identity

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,10})s?)?")
LISTEN = "127.0.0.1:6473"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path("/var/lib/dray/apiserver"),
        metavar="D",
        help="objects, certificates, tokens and admin.kubeconfig (default /var/lib/dray/apiserver)",
    )
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="A",
        help=f"HOST:PORT (default {LISTEN}; port 0: any); another address than loopback opens it to the network",
    )
    add_allow_host(parser, "clients may call it; its certificate gets it too")
    parser.add_argument(
        "--event-ttl",
        default="1h",
        metavar="T",
        help="how long Events are kept after they were last seen, like 90s, 30m or 1h (default 1h)",
    )
    add_feature_gates(parser)
    parser.add_argument(
        "--issue",
        metavar="ROLE",
        help="print a kubeconfig with a new token for admin, reader or node/NAME, and end; the server may run meanwhile",
    )
    parser.add_argument(
        "--revoke",
        metavar="ROLE",
        help="end all tokens of admin, reader or node/NAME that were issued before, and end; the server may run meanwhile",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="look whether the store in the data directory is in order, and end; no server may run on it",
    )


def add_allow_host(parser: argparse.ArgumentParser, what: str) -> None:
    """The flag of all that browsers can reach: other names in a Host header are refused."""
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="H",
        help=f"a further name (HOST or HOST:PORT) under which {what}; may be repeated",
    )


def parse_duration(text: str, flag: str = "--event-ttl") -> float:
    """Seconds: a number, or numbers with the units s, m and h as in `1h30m`. `flag` is what it was given to."""
    from dray.errors import InvalidError

    found = _DURATION.fullmatch(text)
    parts = [int(one) if one else 0 for one in found.groups()] if found and text else [0]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2] if len(parts) == 3 else 0
    if not seconds:
        raise InvalidError(f"{flag} must be a time above 0, like 90s, 30m or 1h", field=flag)
    return float(seconds)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.apiserver.http.server import Address
    from dray.errors import InvalidError
    from dray.processes.apiserver import ApiServerOptions, run_apiserver
    from dray.runtime.flags import check_allowed, parse_address
    from dray.runtime.tasks import run_until_signalled
    from dray.semantics.features import enabled_gates, parse_feature_gates

    if arguments.check:
        return _check(arguments.data_dir)
    if arguments.issue is not None or arguments.revoke is not None:
        return _change_tokens(arguments.data_dir.absolute(), arguments.issue, arguments.revoke)
    found = parse_address(arguments.listen, "--listen")
    if found is None:
        raise InvalidError(f"--listen must be HOST:PORT, like {LISTEN}", field="--listen")
    options = ApiServerOptions(
        arguments.data_dir.absolute(),
        Address(*found),
        parse_duration(arguments.event_ttl),
        check_allowed(arguments.allow_host),
        enabled_gates(parse_feature_gates(arguments.feature_gates)),
    )
    run_until_signalled(lambda: run_apiserver(options))
    return 0


def _check(data_dir: Path) -> int:
    from dray.apiserver.check import check_store
    from dray.cli import exit_codes

    found = check_store(data_dir / "store.db")
    for fault in found.faults:
        print(fault)
    state = f"{len(found.faults)} faults" if found.faults else "in order"
    print(f"{found.objects} objects, {found.changes} changes, revision {found.revision}: {state}")
    return exit_codes.REFUSED if found.faults else exit_codes.DONE


def _change_tokens(data_dir: Path, issue: str | None, revoke: str | None) -> int:
    from dray.apiserver.access.tokens import Tokens
    from dray.errors import NotFoundError
    from dray.processes.apiserver import KUBECONFIG, TOKENS, issue_kubeconfig

    if not (data_dir / KUBECONFIG).exists():
        raise NotFoundError(
            f"no server ever ran on {str(data_dir)!r}: start `dray apiserver` first, or give its --data-dir",
            kind="server",
        )
    if revoke is not None:
        user = parse_role(revoke, "--revoke").name
        print(f"{Tokens(data_dir / TOKENS).revoke(user)} tokens of {user} ended")
    if issue is not None:
        print(issue_kubeconfig(data_dir, parse_role(issue, "--issue")), end="")
    return 0


def parse_role(text: str, flag: str) -> Identity:
    """`admin`, `reader` or `node/NAME`."""
    from dray.api.names import dns_subdomain
    from dray.apiserver.access.identity import admin, node, reader
    from dray.errors import InvalidError

    role, _, name = text.partition("/")
    if role == "node" and name and not dns_subdomain(name):
        return node(name)
    if text not in ("admin", "reader"):
        raise InvalidError(f"{flag} must be admin, reader or node/NAME, not {text!r}", field=flag)
    return admin() if text == "admin" else reader()
