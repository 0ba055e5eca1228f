"""The hints that were decided on, by pod and container. In memory only: after a restart all pods are admitted again."""

from __future__ import annotations

from dray.kubelet.topology.hints import Hint
from dray.kubelet.topology.policies import NO_HINT


class HintStore:
    """A container's hint lives until its last container id is removed, or its pod is forgotten."""

    def __init__(self) -> None:
        self._hints: dict[str, dict[str, Hint]] = {}
        self._containers: dict[str, tuple[str, str]] = {}

    def __len__(self) -> int:
        return sum(len(hints) for hints in self._hints.values())

    def hint(self, pod_uid: str, container: str) -> Hint:
        """No preference where nothing was decided."""
        return self._hints.get(pod_uid, {}).get(container, NO_HINT)

    def put(self, pod_uid: str, container: str, hint: Hint) -> None:
        """Replaces what an earlier admission decided."""
        self._hints.setdefault(pod_uid, {})[container] = hint

    def add_container(self, pod_uid: str, container: str, container_id: str) -> None:
        """A container was made for this name; again after each restart of it, with another id."""
        self._containers[container_id] = (pod_uid, container)

    def remove_container(self, container_id: str) -> None:
        """The hint goes with the last id of its name. An id that is not known is fine."""
        named = self._containers.pop(container_id, None)
        if named is None or named in self._containers.values():
            return
        pod_uid, container = named
        hints = self._hints.get(pod_uid, {})
        hints.pop(container, None)
        if not hints:
            self._hints.pop(pod_uid, None)

    def forget_pod(self, pod_uid: str) -> None:
        """All hints and ids of a pod that was rejected or is over."""
        self._hints.pop(pod_uid, None)
        gone = [key for key, (owner, _) in self._containers.items() if owner == pod_uid]
        for key in gone:
            del self._containers[key]
