"""What the agent's command line says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dray.agent.cluster import ClusterSide, parse_node_name
from dray.agent.config.config_place import ConfigMapPlace, Place
from dray.client.access import ClusterAccess
from dray.runtime.pages import ANYBODY, Readers
from dray.wire.deviceplugin import DIRECTORY


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """`config` None: nothing but what the program brings along. `metrics` None: none are served. `access` None: there is no
    API server for us. `instance`: another process of the same driver may run, which we replace (the pod's UID)."""

    config: Place | None
    additions: Path | ConfigMapPlace | None = None
    access: ClusterAccess | None = None
    node_name: str = ""
    instance: str = ""
    cdi_dir: Path = Path("/var/run/cdi")
    kubelet_dir: Path = Path("/var/lib/kubelet")
    device_plugin_dir: Path = Path(DIRECTORY)
    state_dir: Path = Path("/var/lib/dray")
    host_root: str = "/"
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_labels_file: Path | None = None
    metrics: tuple[str, int] | None = None
    metrics_readers: Readers = ANYBODY
    reached: Callable[[str], None] = lambda _: None
    """Told the steps of publishing, preparing and giving back: tests end the process there."""

    @property
    def cluster(self) -> ClusterSide:
        """What concerns the API server."""
        return ClusterSide(
            self.config,
            parse_node_name(self.node_name),
            self.state_dir,
            self.access,
            self.additions,
            self.node_labels,
            self.node_labels_file,
        )
