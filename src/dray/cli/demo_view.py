"""A demonstration for people: each word on its lines as it comes."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

from dray.cli.explain import as_lines
from dray.cli.tables import BOLD, GREEN, clean, columns, painted, terminal_width, visible
from dray.demo.story import Output, Refused, Road, Stage, Step, Word
from dray.up.place import RunningUp

_WIDTH: Final = 110
_TIME: Final = 10
_WHO: Final = 13
_INDENT: Final = " " * (_TIME + _WHO)
_NEXT: Final = (
    ("  dray up", "the same stack until Ctrl-C, with this machine's devices and a dashboard in the browser"),
    ("  dray up --sim 100-nodes", "with a simulated fleet; then dray get devices, dray top, dray explain"),
    ("  dray devices", "what this machine has"),
    ("  dray --help", "all commands; the README leads to the documentation"),
)


class View:
    """Prints to stdout; without `show` nothing."""

    def __init__(self, *, colour: bool, show: bool = True, width: int | None = None) -> None:
        self._colour = colour
        self._show = show
        self._width = min(width or terminal_width() or _WIDTH, _WIDTH)

    def ready(self, running: RunningUp) -> None:
        """The stack is there: what it is."""
        head = f"Dray {running.version} runs in this process: API server, controllers, scheduler, kubelet and agent."
        facts = [
            ("  node", running.node),
            ("  devices", running.devices),
            ("  simulated", "the GPUs and cards below do not exist; everything else is the real thing"),
            ("  containers", f"{running.runtime}: {running.containers}"),
        ]
        self._print(painted(head, BOLD, colour=self._colour), *columns(facts))

    def word(self, word: Word) -> None:
        """One of them, as it comes."""
        self._print(*self.lines(word))

    def end(self, seconds: float, kept: Path | None) -> None:
        """How long it took, what is left, and where to go from here."""
        left = f"its directory is {kept}" if kept else "its processes, sockets and files are gone"
        self._print(
            "",
            painted(f"That was all, in {seconds:.1f} s; {left}.", GREEN, colour=self._colour),
            *(
                [
                    f"`dray up --data-dir {kept}` goes on with it, `dray down --purge` with that flag removes it."
                ]
                if kept
                else []
            ),
            "Next:",
            *columns(_NEXT),
        )

    def lines(self, word: Word) -> list[str]:
        """What is printed for a word. Pure."""
        if isinstance(word, Road):
            return ["", painted(word.title, BOLD, colour=self._colour)]
        if isinstance(word, Stage):
            return ["", f"{word.number:>{_TIME - 2}}  {painted(word.title, BOLD, colour=self._colour)}"]
        if isinstance(word, Step):
            return self._step(word)
        if isinstance(word, Output):
            return [f"{_INDENT}| {visible(line)}" for line in word.lines]
        return self._refused(word)

    def _step(self, step: Step) -> list[str]:
        time = "" if step.ms is None else f"+{step.ms:.0f} ms"
        head = f"{time:>{_TIME - 2}}  {step.by:<{_WHO}}"
        lines = self._wrapped(step.what)
        lines += [f"  {line}" for line in self._wrapped(f"({step.why})", 2)] if step.why else []
        return [head + lines[0], *(_INDENT + line for line in lines[1:])]

    def _wrapped(self, text: str, less: int = 0) -> list[str]:
        width = max(30, self._width - len(_INDENT) - less)
        return textwrap.wrap(clean(text), width, break_on_hyphens=False, break_long_words=False)

    def _refused(self, word: Refused) -> list[str]:
        title = f"  $ dray explain pod/{word.pod}"
        return [
            "",
            title,
            *(f"  {line}".rstrip() for line in as_lines(word.explained, colour=self._colour)),
            "",
        ]

    def _print(self, *lines: str) -> None:
        if self._show:
            print("\n".join(lines), flush=True)
