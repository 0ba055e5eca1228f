"""Which pods may be asked about at once: no two that want the same resource. Pure.

What is free, and where, is true only until somebody else is given it, so pods of one resource come one after the other.
Others need not wait: a plugin that does not answer keeps back the pods that want its devices, and nobody else.
"""

from __future__ import annotations

from collections.abc import Collection

from dray.api.core import Pod


class Lanes:
    """`enter` before, `leave` after, also where nothing was asked."""

    def __init__(self) -> None:
        self._inside: dict[str, frozenset[str]] = {}
        self._waiting: dict[str, frozenset[str]] = {}

    def enter(self, uid: str, wants: Collection[str]) -> bool:
        """Whether it is this pod's turn. If not, a `leave` will name it."""
        if uid in self._inside:
            return True
        wanted = frozenset(wants)
        if wanted and any(not wanted.isdisjoint(one) for one in self._inside.values()):
            self._waiting[uid] = wanted
            return False
        self._waiting.pop(uid, None)
        self._inside[uid] = wanted
        return True

    def leave(self, uid: str) -> list[str]:
        """The pods whose turn it is now, first come first served; they are inside."""
        self._inside.pop(uid, None)
        busy = frozenset[str]().union(*self._inside.values())
        turns: list[str] = []
        for each, wanted in self._waiting.items():
            if busy.isdisjoint(wanted):
                busy |= wanted
                turns.append(each)
        for each in turns:
            self._inside[each] = self._waiting.pop(each)
        return turns


def wanted_of(pod: Pod) -> frozenset[str]:
    """The resources of plugins that a pod may want: those whose names have a domain."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return frozenset(name for one in containers for name in one.resources.limits if "/" in name)
