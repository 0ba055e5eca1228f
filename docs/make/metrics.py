"""All metrics, out of a registry in which every part has announced its own.

Labels of series that are read at each scrape are known only from samples, so each part gets one of everything to tell.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, Literal

import prometheus_client

from docs.make.made import plain, table
from dray.agent.metrics import AgentMetrics
from dray.api.resource import ResourceClaim
from dray.apiserver.http.measures import Measures
from dray.controllers.guard.server import GuardServer
from dray.controllers.metrics import ControllerMetrics
from dray.controllers.queues import MeteredQueue
from dray.deviceplugin.metrics import PluginMetrics
from dray.dra.metrics import DraMetrics
from dray.kubelet.claims.meters import Meters
from dray.kubelet.metrics import KubeletMetrics
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics, Sample
from dray.runtime.quarantine import show_set_aside
from dray.scheduler.metrics import SchedulerMetrics
from dray.scheduler.queue.waiting import Place
from dray.wire.registration_state import RegistrationPhase

Site = tuple[str, int]


@dataclass
class _Announced:
    name: str
    kind: str
    text: str
    site: Site
    labels: Callable[[], Iterable[str]] = field(repr=False)


class Register(Metrics):
    """Notes what is announced, and where in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[_Announced] = []

    def counter(self, name: str, text: str, labels: Iterable[str] = ()) -> prometheus_client.Counter:
        """See `Metrics`."""
        self._note(f"{name}_total", "counter", text, labels := tuple(labels))
        return super().counter(name, text, labels)

    def gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> prometheus_client.Gauge:
        """See `Metrics`."""
        self._note(name, "gauge", text, labels := tuple(labels))
        return super().gauge(name, text, labels)

    def histogram(
        self,
        name: str,
        text: str,
        labels: Iterable[str] = (),
        *,
        buckets: Iterable[float] = prometheus_client.Histogram.DEFAULT_BUCKETS,
    ) -> prometheus_client.Histogram:
        """See `Metrics`."""
        self._note(name, "histogram", text, labels := tuple(labels))
        return super().histogram(name, text, labels, buckets=buckets)

    def series(
        self,
        name: str,
        text: str,
        collect: Callable[[], Iterable[Sample]],
        *,
        kind: Literal["gauge", "counter"] = "gauge",
    ) -> None:
        """See `Metrics`."""
        self._note(name, kind, text, ())
        self.announced[-1].labels = lambda: next(iter(collect()))[0]
        super().series(name, text, collect, kind=kind)

    def _note(self, name: str, kind: str, text: str, labels: tuple[str, ...]) -> None:
        caller = sys._getframe(2)  # noqa: SLF001  # a test compares with all places in the code
        site = (caller.f_code.co_filename, caller.f_lineno)
        self.announced.append(_Announced(name, kind, text, site, lambda: labels))


def metrics_of() -> str:
    """The tables, one for each program."""
    parts = []
    for program, register in registers().items():
        rows = [
            (f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels()), plain(one.text))
            for one in register.announced
        ]
        parts += [f"### {program}", table(("name", "type", "labels", "what"), rows)]
    return "\n\n".join(parts)


def registers() -> dict[str, Register]:
    """What each program announces."""
    makers: dict[str, Callable[[Register], None]] = {
        "dray agent": _agent,
        "dray kubelet": _kubelet,
        "dray scheduler": _scheduler,
        "dray controllers": _controllers,
        "dray apiserver": _apiserver,
    }
    found = {name: Register() for name in makers}
    for name, make in makers.items():
        make(found[name])
    return found


def _having(**facts: Any) -> Any:
    """Stands for a part that would be asked at a scrape."""
    return SimpleNamespace(**facts)


_ASIDE: Final[Any] = _having(set_aside={})


def _agent(metrics: Register) -> None:
    device = _having(kind="", resource="", health=_having(value=""))
    feed = _having(current=_having(devices=[device]))
    AgentMetrics(metrics).follow(feed, _having(looks=0, seconds=0.0), _having(loads=0, refusals=0))
    PluginMetrics(metrics).follow(lambda: {"": _having(phase=RegistrationPhase.REGISTERED)})
    DraMetrics(metrics).follow(lambda: {"": True}, lambda: {"": 0}, lambda: {"": _ASIDE})


def _kubelet(metrics: Register) -> None:
    kubelet = KubeletMetrics(metrics)
    show_set_aside(metrics, lambda: {"": _ASIDE})
    kubelet.follow_devices(lambda: {"": (0, 0)})
    kubelet.follow_plugins(lambda: ([""], [""]))
    for counter in (*kubelet.pod_resources.calls.values(), *kubelet.pod_resources.errors.values()):
        counter.inc("", by=0)
    Meters(metrics, SystemClock()).count(_having(in_use=lambda: {"": 0}))


def _scheduler(metrics: Register) -> None:
    queue = _having(counts=lambda: Counter(dict.fromkeys(Place, 0)), gated=lambda: 0)
    SchedulerMetrics(metrics, "").watch(
        queue,
        _having(writing=0, waiting=0),
        _having(waiting=0, dropped=0),
        _having(waiting=0, stopped=0),
        _ASIDE,
    )


def _controllers(metrics: Register) -> None:
    controllers = ControllerMetrics(metrics)
    controllers.follow_quarantine(_ASIDE)
    controllers.follow_claims(_having(values=lambda: [ResourceClaim()]))
    MeteredQueue("", SystemClock(), controllers.queues)
    GuardServer(_having(reserved=0, is_leading=False), _having(), _having(), metrics)


def _apiserver(metrics: Register) -> None:
    page = _having(items=[None], remaining=0)
    store = _having(list=lambda resource, limit: page, revision=0)
    measures = Measures(metrics, SystemClock())
    measures.of_store(store, lambda: [""])
    measures.of_upkeep(_ASIDE)
