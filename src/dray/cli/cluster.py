"""Which cluster a verb talks to, and how it asks: flags, lookup, one client for one question.

The first of: --data-dir, --kubeconfig and --context, $KUBECONFIG, a `dray up` that runs, ~/.kube/config, the pod's own cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dray.errors import InvalidError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from dray.client.access import ClusterAccess
    from dray.client.client import Client
    from dray.client.requests import Selection

T = TypeVar("T")
Say = Callable[[str], None]

_PATIENCE = 1.0
"""Seconds before it is said what is waited for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom to ask. `namespace` is where names are looked for; `is_everywhere`: -A was given. `say` shows progress."""

    client: Client
    namespace: str
    is_everywhere: bool = False
    say: Say = lambda _: None

    def selection(self, labels: str = "", fields: str = "") -> Selection:
        """What lists are asked for."""
        from dray.client.requests import Selection

        return Selection(None if self.is_everywhere else self.namespace, labels, fields)


def add_cluster_arguments(
    parser: argparse.ArgumentParser, *, namespace: bool = True, everywhere: bool = False
) -> None:
    """--kubeconfig, --context, --data-dir; -n and -A where the verb has to do with namespaces."""
    # A verb answers a person: what its client does is told only where it goes wrong.
    parser.set_defaults(log_level=parser.get_default("log_level") or "warning")
    group = parser.add_argument_group("which cluster")
    add_kubeconfig_arguments(group)
    group.add_argument("--data-dir", type=Path, metavar="D", help="of the `dray up` to talk to")
    if namespace:
        group.add_argument(
            "-n", "--namespace", metavar="NS", help="the namespace (default: the context's, or default)"
        )
    if everywhere:
        group.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")


def add_kubeconfig_arguments(
    group: argparse._ActionsContainer, *, finds_up: bool = True, none: str = ""
) -> None:
    """--kubeconfig and --context. `finds_up`: a running `dray up` is found too; `none`: what `--kubeconfig none` does."""
    running = "a running `dray up`, " if finds_up else ""
    or_none = f"; none: {none}" if none else ""
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="K",
        help=f"a cluster's file (default: $KUBECONFIG, {running}~/.kube/config, or the pod's own{or_none})",
    )
    group.add_argument(
        "--context", metavar="C", help="which context of the kubeconfig (default: its current one)"
    )


def access_of(arguments: argparse.Namespace) -> ClusterAccess:
    """The cluster that these flags mean."""
    return find_cluster(arguments.kubeconfig, arguments.context, getattr(arguments, "data_dir", None))


def find_cluster(
    kubeconfig: Path | None, context: str | None, data_dir: Path | None = None, *, files: bool = False
) -> ClusterAccess:
    """InvalidError names all ways to say which; `files`: objects in files would do as well."""
    from dray.client.kubeconfig import find_access
    from dray.up.place import find_running

    if data_dir is not None:
        return _of_data_dir(data_dir, kubeconfig, context)
    if not kubeconfig and not context and not os.environ.get("KUBECONFIG"):
        running = find_running(None)
        if running is not None:
            return find_access(running.kubeconfig)
    try:
        return find_access(kubeconfig, context=context)
    except InvalidError as error:
        or_files = ", or give the cluster's objects with -f FILE" if files else ""
        if error.field in ("exec", "auth-provider") and files:
            raise InvalidError(f"{error}{or_files}", field=error.field) from None
        if error.field != "KUBECONFIG":
            raise
        missing = str(error).removeprefix("no kubeconfig: ").partition(";")[0]
        raise InvalidError(
            f"no cluster: no `dray up` runs here and {missing}; start one with `dray up`, or give --kubeconfig FILE "
            f"or KUBECONFIG{or_files}",
            field="--kubeconfig",
        ) from None


def _of_data_dir(data_dir: Path, kubeconfig: Path | None, context: str | None) -> ClusterAccess:
    from dray.client.kubeconfig import find_access
    from dray.up.place import find_running

    if kubeconfig:
        raise InvalidError(
            "--data-dir and --kubeconfig both say which cluster; give one of them", field="--data-dir"
        )
    running = find_running(data_dir)
    if running is None:
        raise NotFoundError(
            f"no `dray up` runs on {data_dir}; start it with `dray up --data-dir {data_dir}`",
            kind="dray up",
            name=str(data_dir),
        )
    return find_access(running.kubeconfig, context=context)


def ask(arguments: argparse.Namespace, work: Callable[[Asked], Awaitable[T]]) -> T:
    """Run `work` with a client for the cluster of these flags. Who waits over a second is told for what, on a terminal."""
    return asyncio.run(_ask(arguments, access_of(arguments), work))


async def _ask(
    arguments: argparse.Namespace, access: ClusterAccess, work: Callable[[Asked], Awaitable[T]]
) -> T:
    from dray.client.client import Client

    waiting = _Waiting(f"asking {access.server}")
    asked_namespace = getattr(arguments, "namespace", None)
    is_everywhere = bool(getattr(arguments, "all_namespaces", False))
    try:
        async with Client(access) as client:
            waiting.begin()
            return await work(Asked(client, asked_namespace or access.namespace, is_everywhere, waiting.say))
    except UnavailableError as error:
        where = f" (the address is from {access.origin})" if access.origin else ""
        raise UnavailableError(f"{error}{where}", retry_after=error.retry_after) from error
    finally:
        waiting.end()


class _Waiting:
    """One line on stderr that appears late and goes away; nothing where that is no terminal."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._timer: asyncio.TimerHandle | None = None
        self._is_shown = False

    def begin(self) -> None:
        if sys.stderr.isatty():
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._show)

    def say(self, text: str) -> None:
        """What is done now; "" ends it: something else is shown from here on."""
        self._text = text
        if not text:
            self.end()
        elif self._is_shown:
            self._show()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self._is_shown = False

    def _show(self) -> None:
        from dray.cli.tables import clean

        self._is_shown = True
        print(f"\r\033[K{clean(self._text)}…", end="", file=sys.stderr, flush=True)
