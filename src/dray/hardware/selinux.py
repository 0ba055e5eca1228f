"""SELinux: whether the host enforces it, and the label of a file."""

from __future__ import annotations

from enum import StrEnum

from dray.errors import Error
from dray.hardware.facts import problem_of
from dray.hardware.host_root import Place

ENFORCE = "/sys/fs/selinux/enforce"


class SelinuxState(StrEnum):
    """ABSENT also where the kernel has it and it is switched off. A failed relabel matters only when ENFORCING."""

    ABSENT = "absent"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


def read_selinux(root: Place) -> SelinuxState:
    """The state now, by KubeVirt's rule: a file that cannot be read means absent, and all but "1" permissive."""
    try:
        text = root.read_text(ENFORCE)
    except Error as error:
        problem_of(error, ENFORCE)  # raises what is not the host's fault
        return SelinuxState.ABSENT
    return SelinuxState.ENFORCING if text.strip() == "1" else SelinuxState.PERMISSIVE


def read_label(root: Place, path: str) -> str:
    """A file's label, links followed; empty where it has none, as on a host without SELinux."""
    return root.label(path)
