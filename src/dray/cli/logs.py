"""`dray logs`: what containers wrote, once or as it comes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.cli.apiserver import parse_duration
from dray.cli.cluster import Asked, add_cluster_arguments, ask
from dray.errors import InvalidError, NotFoundError
from dray.runtime.clock import SystemClock

if TYPE_CHECKING:
    from dray.api.core import Pod
    from dray.client.http import Transport

_DEFAULT = "kubectl.kubernetes.io/default-container"
_WAITING = "is waiting to start"
_PAUSE = 0.5
_FOREVER = 10.0 * 365 * 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.set_defaults(log_level="warning")
    parser.add_argument("pod", metavar="POD", help="the pod's name, or pod/NAME")
    parser.add_argument("-c", "--container", metavar="C", help="which container (default: the pod's first)")
    parser.add_argument(
        "--all-containers", action="store_true", help="of all of them, each line with its name"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the container ends; waits for one to start"
    )
    parser.add_argument("--tail", type=int, metavar="N", help="the last N lines only")
    parser.add_argument("--since", metavar="T", help="not older than this, like 90s, 5m or 1h")
    parser.add_argument(
        "-p",
        "--previous",
        action="store_true",
        help="of the run before, of a container that was started again",
    )
    parser.add_argument("--timestamps", action="store_true", help="with the time of each line")
    add_cluster_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print to stdout; notes go to stderr."""
    options = _options(arguments)
    name = arguments.pod.removeprefix("pod/").removeprefix("pods/")
    if not name or "/" in name:
        raise InvalidError(f"POD {arguments.pod!r} must be a pod's name, or pod/NAME", field="POD")
    return ask(arguments, lambda asked: _logs(asked, name, arguments, options))


def _options(arguments: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    if arguments.container and arguments.all_containers:
        raise InvalidError("-c and --all-containers exclude each other: give one", field="--all-containers")
    if arguments.tail is not None and arguments.tail < 0:
        raise InvalidError("--tail must be 0 or more", field="--tail")
    flags = {"follow": arguments.follow, "previous": arguments.previous, "timestamps": arguments.timestamps}
    found = [(name, "true") for name, given in flags.items() if given]
    if arguments.tail is not None:
        found.append(("tailLines", str(arguments.tail)))
    if arguments.since is not None:
        found.append(("sinceSeconds", str(int(parse_duration(arguments.since, "--since")))))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Log:
    """One container's log. `prefix` stands before each line."""

    path: str
    container: str
    options: tuple[tuple[str, str], ...]
    prefix: bytes = b""

    @property
    def follows(self) -> bool:
        return ("follow", "true") in self.options


async def _logs(
    asked: Asked, name: str, arguments: argparse.Namespace, options: tuple[tuple[str, str], ...]
) -> int:
    from dray.api.kinds import PODS
    from dray.client.http import Transport

    try:
        pod = await asked.client.get(PODS, name, namespace=asked.namespace)
    except NotFoundError as error:
        raise NotFoundError(
            f'no pod "{name}" in namespace {asked.namespace}; `dray get pods -A` shows all',
            kind="pods",
            name=name,
        ) from error
    chosen = choose_containers(pod, arguments.container or "", everything=arguments.all_containers)
    path = PODS.path(asked.namespace, name, "log")
    width = max(map(len, chosen))
    asked.say("")
    logs = [
        _Log(path, one, options, f"[{one:{width}}] ".encode() if len(chosen) > 1 else b"") for one in chosen
    ]
    async with Transport(asked.client.access) as transport:
        if arguments.follow:
            await _follow_all(transport, logs)
        else:
            for one in logs:
                await _copy(transport, one)
    return 0


def choose_containers(pod: Pod, wanted: str, *, everything: bool) -> Sequence[str]:
    """Those whose logs are shown, in the order in which they start. With several to choose from, the choice is told."""
    inits = [one.name for one in pod.spec.init_containers]
    mains = [one.name for one in pod.spec.containers]
    if everything:
        return [*inits, *mains]
    every = ", ".join([*mains, *(f"{one} (init)" for one in inits)])
    if wanted:
        if wanted in (*mains, *inits):
            return [wanted]
        raise InvalidError(
            f'pod "{pod.metadata.name}" has no container "{wanted}"; it has {every}', field="--container"
        )
    marked = pod.metadata.annotations.get(_DEFAULT, "")
    chosen = marked if marked in mains else mains[0]
    if len(mains) + len(inits) > 1:
        print(f"container {chosen} out of {every}; -c chooses another", file=sys.stderr)
    return [chosen]


async def _follow_all(transport: Transport, logs: Sequence[_Log]) -> None:
    from dray.runtime.tasks import single

    try:
        async with asyncio.TaskGroup() as group:
            for one in logs:
                group.create_task(_follow(transport, one))
    except BaseExceptionGroup as failures:
        raise single(failures) from None


async def _follow(transport: Transport, log: _Log) -> None:
    """Wait for it to start first, and say so."""
    is_told = False
    while True:
        try:
            await _copy(transport, log)
            return
        except InvalidError as error:
            if _WAITING not in str(error):
                raise
            if not is_told:
                print(f"{error}…", file=sys.stderr)
            is_told = True
            await SystemClock().sleep(_PAUSE)


async def _copy(transport: Transport, log: _Log) -> None:
    from dray.client.http import Request

    query = (("container", log.container), *log.options)
    request = Request("GET", log.path, query, accept="*/*")
    quiet = _FOREVER if log.follows else 60.0
    out = sys.stdout.buffer
    sys.stdout.flush()
    rest = b""
    async with transport.stream(request, idle_timeout=quiet, timeout=_FOREVER) as body:
        while piece := await body.read():
            if not log.prefix:
                out.write(piece)
            else:
                *lines, rest = (rest + piece).split(b"\n")
                out.write(b"".join(log.prefix + line + b"\n" for line in lines))
            out.flush()
    if rest:
        out.write(log.prefix + rest + b"\n")
        out.flush()
