"""What a pod asks for and nobody here can judge: such a pod is refused with a reason, never placed as if it had not asked."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.core import Pod
from dray.scheduler.fit import disks
from dray.scheduler.fit.rejection import VOLUME_BINDING, VOLUME_RESTRICTIONS, Rejection


def refused(pod: Pod, *, knows_volumes: bool = False) -> Rejection | None:
    """The first such thing: volumes that particular nodes reach, where the cluster's volumes are not known."""
    found = None if knows_volumes else next(_asked(pod), None)
    if found is None:
        return None
    check, what = found
    return Rejection(check=check, reasons=(f"this scheduler does not place pods with {what}",))


def _asked(pod: Pod) -> Iterator[tuple[str, str]]:
    checks = dict.fromkeys(("persistentVolumeClaim", "ephemeral"), VOLUME_BINDING)
    checks |= dict.fromkeys(disks.KINDS, VOLUME_RESTRICTIONS)
    for index, volume in enumerate(pod.spec.volumes):
        for kind, check in checks.items():
            if volume.get(kind) is not None:
                yield check, f"spec.volumes[{index}].{kind}"
