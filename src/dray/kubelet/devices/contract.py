"""What the device manager needs of one connected plugin, and of the node around it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.topology.hints import Hint
from dray.runtime.clock import Clock
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse

CHECKPOINT = "kubelet_internal_checkpoint"
"""The file's name, in the directory of the plugins' sockets."""


class Options(Protocol):
    """What a plugin asked for when it connected; `DevicePluginOptions` is one."""

    @property
    def pre_start_required(self) -> bool:
        """PreStartContainer before every start of a container."""
        ...

    @property
    def get_preferred_allocation_available(self) -> bool:
        """It may be asked which devices it would rather give."""
        ...


class Endpoint(Protocol):
    """One connected plugin. Two that are the same object are the same connection. All calls raise Errors of `dray.errors`.

    Calls come from many pods at once; one that hangs holds up its own pod only. Where it has ended meanwhile it says so
    with an UnavailableError.
    """

    @property
    def options(self) -> Options:
        """As asked once, when it connected."""
        ...

    async def allocate(self, ids: Sequence[str]) -> ContainerAllocateResponse:
        """The answer for one container; an answer without any is a ProtocolError."""
        ...

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """What it would rather give; empty: it does not care. May hold ids that nobody offered."""
        ...

    async def pre_start(self, ids: Sequence[str]) -> None:
        """The container that holds these is about to start, perhaps not for the first time."""
        ...


def _tell_nobody(pods: Collection[str]) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the device manager asks of the node. Pods are named by their uids."""

    checkpoint: Path
    active_pods: Callable[[], Collection[str]]
    """Those that hold, or may hold, devices. A pod that is being admitted is one."""
    sources_ready: Callable[[], bool]
    """Whether all pods that shall be here are known; before that nothing is taken back."""
    was_running: Callable[[str, str], bool]
    """Whether a container of that pod and name ran when this process started."""
    affinity: Callable[[str, str], Hint]
    """What the topology manager decided for a container."""
    numa_nodes: tuple[int, ...]
    clock: Clock
    metrics: KubeletMetrics
    health_changed: Callable[[Collection[str]], None] = _tell_nobody
    """Pods whose `allocated_status` may have changed; called in the middle of a change: only take a note there."""
    reached: Callable[[str], None] = lambda _: None
    """Called between any two steps of a grant with a word for the place; tests end the process there."""
