"""Prometheus metrics: the usual counters and histograms, and fast per-device series rendered by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from dray.errors import InvariantError
from dray.runtime.pages import ANYBODY, Page, Readers, serve_pages

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Mapping[str, str], float]


class Metrics:
    """All metrics of one process; made in `processes/` and passed down. No global registry, so tests can have many.

    `series` is for gauges with one sample a device: its samples are read at scrape time from the owner's snapshot,
    so nothing has to be kept in step and thousands of them cost milliseconds.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, that nobody asks for
        self._registry = CollectorRegistry()
        self._series: dict[str, tuple[str, str, Callable[[], Iterable[Sample]]]] = {}

    def counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        """A number that only grows; `_total` is added to its name."""
        return Counter(name, text, tuple(labels), registry=self._registry)

    def gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        """A number that goes up and down."""
        return Gauge(name, text, tuple(labels), registry=self._registry)

    def histogram(
        self,
        name: str,
        text: str,
        labels: Iterable[str] = (),
        *,
        buckets: Iterable[float] = Histogram.DEFAULT_BUCKETS,
    ) -> Histogram:
        """A distribution, in seconds unless the name says otherwise."""
        return Histogram(name, text, tuple(labels), registry=self._registry, buckets=tuple(buckets))

    def series(
        self,
        name: str,
        text: str,
        collect: Callable[[], Iterable[Sample]],
        *,
        kind: Literal["gauge", "counter"] = "gauge",
    ) -> None:
        """Samples computed by `collect` at every scrape: pairs of labels and value."""
        if name in self._series:
            raise InvariantError(f"metric {name} is defined twice")
        self._series[name] = (text, kind, collect)

    def render(self) -> bytes:
        """The text exposition format, ready to be sent."""
        lines: list[str] = []
        for name, (text, kind, collect) in sorted(self._series.items()):
            lines += [f"# HELP {name} {_escape_help(text)}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {value:.17g}" for labels, value in collect()]
        own = "\n".join(lines) + "\n" if lines else ""
        return generate_latest(self._registry) + own.encode()


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


@asynccontextmanager
async def serve_metrics(
    metrics: Metrics,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    checks: Mapping[str, Callable[[], str]] = MappingProxyType({}),
    pages: Mapping[str, Callable[[], Page]] = MappingProxyType({}),
    readers: Readers = ANYBODY,
) -> AsyncIterator[int]:
    """Serve `/metrics` and `/healthz` over HTTP while entered; gives the port, which port 0 lets the system choose.

    `checks` are further paths; each says what is wrong, or nothing. `/healthz` among them replaces ours, which is always
    fine as long as it answers. `pages` are whatever else a part has to tell. `readers` say who gets them.
    """

    def scrape() -> Page:
        return Page(200, CONTENT_TYPE, metrics.render())

    def asking(check: Callable[[], str]) -> Callable[[], Page]:
        def answer() -> Page:
            wrong = check()
            return Page(503 if wrong else 200, "text/plain; charset=utf-8", f"{wrong or 'ok'}\n".encode())

        return answer

    asked = {"/healthz": asking(str), **{path: asking(check) for path, check in checks.items()}}
    async with serve_pages(
        {**asked, **pages, "/metrics": scrape}, host=host, port=port, readers=readers
    ) as chosen:
        yield chosen
