"""`dray bench apiserver`: durable writes, lists, watches and memory of the embedded API server, beside kube-apiserver with etcd.

Both are asked by the same load processes over HTTP/1.1 and TLS, one after the other on the same disk, and both acknowledge
a write only when it is synced.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from dray.bench.agent import percentile
from dray.bench.apiserver_load import Listed
from dray.bench.apiserver_loads import Sizes, write_loads
from dray.bench.apiserver_run import Run, run_side
from dray.bench.apiserver_side import PEER, our_side, peer_side, peer_tools
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.errors import InvalidError, NotFoundError
from dray.testing.install_steps import Say

_SPARE_FILES = 200
_SHARES = (0.5, 0.99)


def figures(
    *, sizes: Sizes | None = None, has_peer: bool = True, say: Say = lambda _: None
) -> Iterator[Figure | LeftOut]:
    """All figures; `say` hears of the progress. Where the peer is not installed, Dray's alone."""
    wanted = sizes or Sizes()
    _allow_files(wanted.watchers + _SPARE_FILES)
    with our_side() as side:
        ours = run_side(side, wanted, say)
    theirs: Run | None = None
    try:
        if has_peer:
            with peer_side(peer_tools()) as side:
                theirs = run_side(side, wanted, say)
    except NotFoundError as error:
        yield LeftOut(PEER, str(error))
    yield from _Table(ours, theirs).figures(wanted)


def _allow_files(count: int) -> None:
    """The servers inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise InvalidError(f"{count} open files are needed and {hard} allowed: raise `ulimit -Hn`")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@dataclass(frozen=True, slots=True)
class _Table:
    """The two runs as figures."""

    ours: Run
    theirs: Run | None

    def figures(self, sizes: Sizes) -> Iterator[Figure]:
        yield from self._writes(sizes)
        yield from self._fan_out(sizes)
        name = f"list {sizes.objects} objects"
        yield from self._list(name, lambda run: run.whole)
        yield from self._list(f"{name} in pages of {sizes.page}", lambda run: run.paged)
        yield self._figure("memory idle (RSS)", "MiB", lambda run: run.idle)
        yield self._figure(f"memory with {sizes.objects} objects", "MiB", lambda run: run.full)
        yield self._figure("memory after lists and watches", "MiB", lambda run: run.after)

    def _writes(self, sizes: Sizes) -> Iterator[Figure]:
        for number, load in enumerate(write_loads(sizes)):
            yield self._rate(load.name, "writes/s", partial(_writes_a_second, number))
            for share in _SHARES:
                name = f"{load.name}, p{share * 100:g}"
                yield self._figure(name, "ms", partial(_write_milliseconds, number, share))

    def _fan_out(self, sizes: Sizes) -> Iterator[Figure]:
        name = f"{sizes.watchers} watchers"
        yield self._rate(f"{name}, events delivered", "events/s", lambda run: run.fanned.rate)
        for share in _SHARES:
            text = f"{name}, from a write to the last of them, p{share * 100:g}"
            yield self._figure(text, "ms", partial(_fan_out_milliseconds, share))

    def _list(self, name: str, listed: Callable[[Run], Listed]) -> Iterator[Figure]:
        yield self._figure(f"{name}, to the last byte", "ms", lambda run: listed(run).last * 1e3)
        yield self._figure(f"{name}, to the first byte", "ms", lambda run: listed(run).first * 1e3)
        yield self._rate(f"{name}, throughput", "MB/s", lambda run: listed(run).size / listed(run).last / 1e6)

    def _rate(self, name: str, unit: str, value: Callable[[Run], float]) -> Figure:
        return replace(self._figure(name, unit, value), higher_is_better=True)

    def _figure(self, name: str, unit: str, value: Callable[[Run], float]) -> Figure:
        if self.theirs is None:
            return Figure(name, unit, value(self.ours))
        return Figure(name, unit, value(self.ours), PEER, value(self.theirs))


def _writes_a_second(number: int, run: Run) -> float:
    return run.writes[number].rate


def _write_milliseconds(number: int, share: float, run: Run) -> float:
    return run.writes[number].milliseconds(share)


def _fan_out_milliseconds(share: float, run: Run) -> float:
    return percentile(run.fanned.singles, share) * 1e3
