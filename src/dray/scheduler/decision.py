"""What a scheduling decision may be: the parcel between `cycle`, which decides, and those who carry it out."""

from __future__ import annotations

from dataclasses import dataclass

from dray.allocation.state import DeviceID
from dray.api.core import Node, Pod
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.post_filter import PostFiltered
from dray.scheduler.claims.reserve import Reserved
from dray.scheduler.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Placed:
    """`pod` has its node's name set, `reserved` its devices, if it has claims. Both are counted already."""

    pod: Pod
    node: str
    reserved: Reserved | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Pods that would have to leave a node so that another one fits there: their uids. Chosen by who had more time."""

    node: str
    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """No node does. `short` are those that lack devices; `asked` can explain them, or `why` does already. `post` may help the
    next time. `is_told`: it comes from who had more time, and `why` and `victims` are all there is to know."""

    pod: Pod
    diagnosis: Diagnosis
    asked: Filter | None = None
    short: tuple[Node, ...] = ()
    post: PostFiltered | None = None
    why: str = ""
    victims: Chosen | None = None
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The decision could not be made; no check is to blame, so the pod is tried again after a pause."""

    pod: Pod
    reason: str


@dataclass(frozen=True, slots=True)
class Overrun:
    """The decision was not over in its time. Nothing is counted; whoever has more time may ask again."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Given:
    """A node and devices that were chosen before, by who had more time. They are taken if they still do."""

    node: str
    devices: frozenset[DeviceID]


Decision = Placed | Refused | Failed | Overrun
