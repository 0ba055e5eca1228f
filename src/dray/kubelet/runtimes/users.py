"""Who a container runs as: the pod's numbers, else the image's user, looked up in the image's own files. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import Security


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
    entry = _entry(_rows(passwd), name or "0", 2)
    if entry is None and not (name or "0").isdigit():
        raise InvalidError(f"the image has no user {name!r} in its /etc/passwd", field="runAsUser")
    uid = int(entry[2]) if entry else int(name or "0")
    gid = int(entry[3]) if entry else 0
    if group_name:
        found = _entry(_rows(group), group_name, 2)
        if found is None and not group_name.isdigit():
            raise InvalidError(f"the image has no group {group_name!r} in its /etc/group", field="runAsGroup")
        gid = int(found[2]) if found else int(group_name)
    if security.group is not None:
        gid = security.group
    member_of = {int(row[2]) for row in _rows(group) if entry and entry[0] in row[3].split(",")}
    return Owner(uid, gid, tuple(sorted({gid, *member_of, *security.supplemental_groups})))


def _rows(text: str) -> list[list[str]]:
    """Lines that hold what we need; others, which every such file may have, do not count."""
    rows = [line.strip().split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) >= 4 and row[2].isdigit() and (row[3].isdigit() or len(row) == 4)]


def _entry(rows: list[list[str]], name: str, number: int) -> list[str] | None:
    """By name first, then by number, as everybody does it."""
    by_name = [row for row in rows if row[0] == name]
    return next(iter(by_name + [row for row in rows if row[number] == name]), None)
