"""`dray top`: the fleet at a glance; on a terminal it stays and follows."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dray.cli.cluster import Asked, add_cluster_arguments, ask
from dray.errors import DeniedError, NotFoundError

if TYPE_CHECKING:
    from dray.api.kinds import Resource
    from dray.cli.views.objects import Objects
    from dray.client.informer import Informer

_SECONDS = 2.0
_QUIT = ("q", "Q", "\x03", "\x1b", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.set_defaults(log_level="error")
    parser.add_argument(
        "--once", action="store_true", help="print it and end; so it is where there is no terminal"
    )
    parser.add_argument(
        "--sort",
        choices=["held", "free", "unhealthy", "name"],
        default="held",
        help="the order of nodes (default held); on a terminal the keys h, f, u and n change it, q quits",
    )
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )
    add_cluster_arguments(parser, namespace=False)


def run(arguments: argparse.Namespace) -> int:
    """Until `q`, or once."""
    is_once = arguments.once or arguments.output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())
    return ask(arguments, lambda asked: (_once if is_once else _live)(asked, arguments))


def _resources() -> tuple[Resource[Any], ...]:
    from dray.api import kinds

    return (
        kinds.NODES,
        kinds.PODS,
        kinds.RESOURCE_SLICES,
        kinds.RESOURCE_CLAIMS,
        kinds.DEVICE_TAINT_RULES,
        kinds.DEVICE_CLASSES,
        kinds.EVENTS,
    )


async def _once(asked: Asked, arguments: argparse.Namespace) -> int:
    from dray.cli.tables import has_colour, print_document, terminal_width
    from dray.cli.top_view import as_document, picture, screen
    from dray.cli.views.objects import read_related
    from dray.runtime.clock import SystemClock

    found = picture(await read_related(asked, _resources(), SystemClock().now))
    asked.say("")
    server = asked.client.access.server
    if arguments.output == "json":
        print_document(as_document(found, server), "json")
        return 0
    sort = arguments.sort[0]
    for line in screen(found, server, sort, width=terminal_width(), height=None, colour=has_colour()):
        print(line)
    return 0


async def _live(asked: Asked, arguments: argparse.Namespace) -> int:
    from dray.cli.views.objects import objects_of
    from dray.client.informers import Informers
    from dray.runtime.clock import SystemClock

    clock = SystemClock()
    readable, notes = await _readable(asked)
    informers = Informers(asked.client)
    each = {resource: informers.of(resource) for resource in readable}

    lag = _Lag(list(each.values()))

    def objects() -> Objects:
        found = {one: tuple(informer.values()) for one, informer in each.items()}
        return objects_of(clock.now(), found, [*lag.notes(), *notes])

    async with informers:
        asked.say("")
        with _Screen(arguments.sort[0]) as shown:
            while not shown.is_over:
                shown.draw(objects(), asked.client.access.server)
                await shown.wait_key(_SECONDS)
    return 0


async def _readable(asked: Asked) -> tuple[Sequence[Resource[Any]], list[str]]:
    """The kinds that this server has and this user may read; notes name the others."""
    found, notes = [], []
    for one in _resources():
        try:
            await asked.client.list_page(one, limit=1)
            found.append(one)
        except NotFoundError:
            continue
        except DeniedError as error:
            if not error.authenticated:
                raise
            notes.append(f"may not list {one}: what they would tell is missing here")
    return found, notes


class _Lag:
    """Tells when what is shown is old, because the server does not answer."""

    def __init__(self, informers: Sequence[Informer[Any]]) -> None:
        self._informers = informers
        self._good = dict.fromkeys(informers, (0, 0))

    def notes(self) -> list[str]:
        """One line, or none. A failure counts until that informer hears from the server again."""
        for one in self._informers:
            stats = one.stats
            heard = stats.lists + stats.events + stats.bookmarks
            if heard != self._good[one][1] or not stats.failures:
                self._good[one] = (stats.failures, heard)
            elif stats.failures > self._good[one][0]:
                return [f"the cluster cannot be reached, this is old: {stats.last_failure}"]
        return []


class _Screen:
    """The terminal while it is ours: no echo, no line mode, its former content back afterwards. Keys come in between."""

    def __init__(self, sort: str) -> None:
        self.is_over = False
        self._sort = sort
        self._pressed = asyncio.Event()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Screen:
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        with contextlib.ExitStack() as stack:
            stack.enter_context(_keys_at_once(stdin))
            sys.stdout.write("\033[?1049h\033[?25l")
            stack.callback(lambda: print("\033[?25h\033[?1049l", end="", flush=True))
            loop.add_reader(stdin, self._take)
            stack.callback(loop.remove_reader, stdin)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def draw(self, objects: Objects, server: str) -> None:
        from dray.cli.tables import has_colour
        from dray.cli.top_view import SORTS, picture, screen

        size = shutil.get_terminal_size()
        lines = screen(
            picture(objects),
            server,
            self._sort,
            width=size.columns,
            height=size.lines - 1,
            colour=has_colour(),
        )
        keys = "   ".join(f"{key} {word}" for key, (word, _) in SORTS.items())
        help_line = f"sorted by {SORTS[self._sort][0]}   keys: {keys}   q quit"[: size.columns]
        lines += [""] * (size.lines - 1 - len(lines))
        # Each line is ended by a clear to its end, so that nothing flickers; wrapping is off meanwhile.
        body = "\033[K\r\n".join([*lines, help_line])
        sys.stdout.write(f"\033[?7l\033[H{body}\033[J\033[?7h")
        sys.stdout.flush()

    async def wait_key(self, seconds: float) -> None:
        """Until one is pressed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pressed.wait()
        self._pressed.clear()

    def _take(self) -> None:
        from dray.cli.top_view import SORTS

        text = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        for key in [text] if text.startswith("\033") or not text else text:
            if key in _QUIT:
                self.is_over = True
            elif key.lower() in SORTS:
                self._sort = key.lower()
        self._pressed.set()


@contextlib.contextmanager
def _keys_at_once(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
