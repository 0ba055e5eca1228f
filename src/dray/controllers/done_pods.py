"""When a pod is done: nothing of it runs any more, or ever will. Pure."""

from __future__ import annotations

from typing import Final

from dray.api.core import Pod

_TERMINAL: Final = ("Succeeded", "Failed")


def is_terminal(pod: Pod) -> bool:
    """Whether its containers have ended for good."""
    return pod.status.phase in _TERMINAL


def is_done(pod: Pod) -> bool:
    """Whether none of its containers runs or ever will: terminal, or deleted before a node got it."""
    return is_terminal(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)
