"""Who a container runs as: the pod's numbers, else the image's user, looked up in the image's own files. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Security

_HIGHEST = 2**32 - 2
"""The kernel's numbers have 32 bits, and the last one means "none"."""
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Owner:
    """Numbers, as the kernel wants them. `groups` are all groups, sorted, the first one included."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def find_owner(security: Security, user: str, passwd: str = "", group: str = "") -> Owner:
    """`user` is the image's: `name`, `uid`, `name:group`...; InvalidError for a name that its files do not have."""
    name, _, group_name = user.partition(":")
    if security.user is not None:
        name, group_name = str(security.user), ""
    entry = _entry(_rows(passwd), name or "0")
    if entry is None and not _is_number(name or "0"):
        raise InvalidError(f"the image has no user {name!r} in its /etc/passwd", field="runAsUser")
    uid = int(entry[2]) if entry else int(name or "0")
    gid = int(entry[3]) if entry else 0
    if group_name:
        found = _entry(_rows(group), group_name)
        if found is None and not _is_number(group_name):
            raise InvalidError(f"the image has no group {group_name!r} in its /etc/group", field="runAsGroup")
        gid = int(found[2]) if found else int(group_name)
    if security.group is not None:
        gid = security.group
    is_merged = entry is not None and not security.strict_groups
    member_of = {int(row[2]) for row in _rows(group) if is_merged and entry and entry[0] in row[3].split(",")}
    groups = tuple(sorted({gid, *member_of, *security.supplemental_groups}))
    if wrong := [number for number in (uid, *groups) if not 0 <= number <= _HIGHEST]:
        raise InvalidError(
            f"{wrong[0]} is no number of a user or group: they go from 0 to {_HIGHEST}", field="runAsUser"
        )
    return Owner(uid, gid, groups)


def check_non_root(config: ContainerConfig, uid: int | None, name: str = "") -> None:
    """InvalidError, in the kubelet's words, where a pod with runAsNonRoot would run as root, or nobody can tell.

    `uid` is who it will run as, by image and pod; None where the image has only a `name` that was not looked up.
    """
    if not config.security.non_root:
        return
    where = f'(pod: "{_full_name(config.pod)}", container: {config.name})'
    if config.security.user == 0:
        raise InvalidError(f"container's runAsUser breaks non-root policy {where}", field="runAsUser")
    if uid == 0:
        raise InvalidError(
            f"container has runAsNonRoot and image will run as root {where}", field="runAsNonRoot"
        )
    if uid is None:
        text = f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {where}"
        raise InvalidError(text, field="runAsNonRoot")


def _full_name(pod: PodIdentity) -> str:
    return f"{pod.name}_{pod.namespace}({pod.uid})"


def _is_number(text: str) -> bool:
    """As the kernel's tools read one; Python takes other scripts' digits for numbers too, and not all of them."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _rows(text: str) -> list[list[str]]:
    """Lines that hold what we need; others, which every such file may have, do not count."""
    rows = [line.strip().split(":") for line in text.splitlines()]
    return [
        row for row in rows if len(row) >= 4 and _is_number(row[2]) and (_is_number(row[3]) or len(row) == 4)
    ]


def _entry(rows: list[list[str]], wanted: str) -> list[str] | None:
    """A number means that number, as for containerd: no image says that user 1000 is root by calling root "1000"."""
    if _is_number(wanted):
        return next((row for row in rows if int(row[2]) == int(wanted)), None)
    return next((row for row in rows if row[0] == wanted), None)
