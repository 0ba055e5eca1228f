"""What the agent says about claims, pods, its node and its configuration: Events with fixed reasons.

The reasons are a contract: faces and alerts go by them (docs/reference/agent.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dray.agent.node_view import NodeView
from dray.api.core import ObjectReference
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS
from dray.client.event_recorder import EventRecorder
from dray.dra.parcels import ClaimRef
from dray.dra.status import PAUSE
from dray.errors import ConflictError, Error, UnavailableError

COMPONENT: Final = "dray-agent"


class Reason(StrEnum):
    """Why an Event is told."""

    DEVICE_PREPARED = "DevicePrepared"
    DEVICE_PREPARE_FAILED = "DevicePrepareFailed"
    DEVICE_RELEASED = "DeviceReleased"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    DEVICE_RECOVERED = "DeviceRecovered"
    CONFIG_REJECTED = "ConfigRejected"
    CHECKPOINT_RESET = "CheckpointReset"
    SLICE_PUBLISH_FAILED = "SlicePublishFailed"


_NORMAL: Final = frozenset({Reason.DEVICE_PREPARED, Reason.DEVICE_RELEASED, Reason.DEVICE_RECOVERED})


class AgentEvents:
    """Without a recorder (no API server) nothing is written: the log has it all. Never waits, never fails."""

    def __init__(self, recorder: EventRecorder | None = None, node: NodeView | None = None) -> None:
        self._recorder = recorder
        self._node = node

    def tell(self, about: ObjectReference, reason: Reason, message: str) -> None:
        """One event about one object."""
        if self._recorder is not None:
            is_good = reason in _NORMAL
            self._recorder.tell(
                about,
                "Normal" if is_good else "Warning",
                reason.value,
                message,
                after=PAUSE if is_good else 0.0,
            )

    def tell_node(self, reason: Reason, message: str) -> None:
        """About the node that we serve."""
        if self._node is not None:
            uid = self._node.ref.uid if self._node.ref is not None else ""
            self.tell(node_reference(self._node.name, uid), reason, message)

    def tell_claim(
        self, claim: ClaimRef, reason: Reason, message: str, pods: Iterable[tuple[str, str]] = ()
    ) -> None:
        """About a claim, and about the pods it is reserved for (name and uid, in the claim's namespace)."""
        self.tell(claim_reference(claim), reason, message)
        for name, uid in sorted(pods):
            text = f"claim {claim.name}: {message}"
            self.tell(pod_reference(claim.namespace, name, uid), reason, text)

    def config_rejected(self, error: Error, about: tuple[ObjectReference, ...]) -> None:
        """A `ConfigSource`'s `on_refusal`: about the objects with the fault, and about the node that does without."""
        where = f"node {self._node.name}: " if self._node is not None else ""
        for one in about:
            self.tell(one, Reason.CONFIG_REJECTED, f"{where}{error}")
        self.tell_node(Reason.CONFIG_REJECTED, f"configuration refused: {error}")

    def publish_failed(self, driver: str, error: Error) -> None:
        """Slices were not written. What passes by itself is not worth an Event."""
        if not isinstance(error, UnavailableError | ConflictError):
            self.tell_node(Reason.SLICE_PUBLISH_FAILED, f"{driver}: {error}")


def claim_reference(claim: ClaimRef) -> ObjectReference:
    """A claim as an Event names it."""
    return _reference(
        RESOURCE_CLAIMS.api_version, RESOURCE_CLAIMS.kind, claim.namespace, claim.name, claim.uid
    )


def pod_reference(namespace: str, name: str, uid: str) -> ObjectReference:
    """A pod as an Event names it."""
    return _reference(PODS.api_version, PODS.kind, namespace, name, uid)


def node_reference(name: str, uid: str) -> ObjectReference:
    """A node as an Event names it; a uid that is not known is the name, as kubelets have it."""
    return _reference(NODES.api_version, NODES.kind, "", name, uid or name)


def _reference(version: str, kind: str, namespace: str, name: str, uid: str) -> ObjectReference:
    return ObjectReference(api_version=version, kind=kind, namespace=namespace, name=name, uid=uid)
