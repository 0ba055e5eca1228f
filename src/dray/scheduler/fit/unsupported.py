"""What a pod asks for and nobody here can judge: such a pod is refused with a reason, never placed as if it had not asked."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.core import Pod
from dray.scheduler.fit.rejection import VOLUME_BINDING, Rejection


def refused(pod: Pod) -> Rejection | None:
    """The first such thing: volumes that may be bound to particular nodes."""
    for check, what in _asked(pod):
        return Rejection(check=check, reasons=(f"this scheduler does not place pods with {what}",))
    return None


def _asked(pod: Pod) -> Iterator[tuple[str, str]]:
    for index, volume in enumerate(pod.spec.volumes):
        for kind in ("persistentVolumeClaim", "ephemeral"):
            if volume.get(kind) is not None:
                yield VOLUME_BINDING, f"spec.volumes[{index}].{kind}"
