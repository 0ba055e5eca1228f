"""What an operator wants to know of the agent, as Prometheus metrics; those of the plugins are in `deviceplugin/metrics.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from dray.agent.config.config_source import ConfigSource
from dray.hardware.change.executor import AuditEntry, Outcome, log_changes
from dray.inventory.inventory import InventoryFeed
from dray.inventory.looking import Lookout
from dray.runtime.metrics import Metrics, Sample


class AgentMetrics:
    """Read at each scrape from those who know; only changes to the host are counted here."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._changes = metrics.counter(
            "dray_host_changes", "Changes made to the host, by outcome.", ["change", "outcome"]
        )

    def audit(self, entry: AuditEntry) -> None:
        """An executor's `audit`: one log line and one count a change. Called in any thread."""
        log_changes(entry)
        if entry.outcome is not Outcome.STARTED:
            self._changes.labels(type(entry.change).__name__, entry.outcome.value).inc()

    def follow(self, feed: InventoryFeed, lookout: Lookout, config: ConfigSource) -> None:
        """Show these from now on."""
        self._metrics.series(
            "dray_devices", "Devices by kind, resource and health.", lambda: _devices(feed), kind="gauge"
        )
        self._count("looks", "Full looks at the machine.", lambda: lookout.looks)
        self._count("look_seconds", "Seconds that the looks took.", lambda: lookout.seconds)
        self._count("config_loads", "Configurations that were read without a fault.", lambda: config.loads)
        self._count("config_refusals", "Configurations that were refused.", lambda: config.refusals)

    def _count(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._metrics.series(f"dray_{name}_total", text, lambda: [({}, read())], kind="counter")


def _devices(feed: InventoryFeed) -> Iterable[Sample]:
    counts = Counter((one.kind, one.resource, one.health.value) for one in feed.current.devices)
    for (kind, resource, health), count in sorted(counts.items()):
        yield {"kind": kind, "resource": resource, "health": health}, count
