"""What cgroup's misc controller offers: keys for encrypted VMs (`tdx 15`, `sev 500`), counted for the whole host."""

from __future__ import annotations

from dataclasses import dataclass

from dray.errors import Error, HardwareError, NotFoundError
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.parse import decimal

# Version 2, version 1, and version 2 beside version 1. Only the host's top directory has the file.
PATHS = (
    "/sys/fs/cgroup/misc.capacity",
    "/sys/fs/cgroup/misc/misc.capacity",
    "/sys/fs/cgroup/unified/misc.capacity",
)


@dataclass(frozen=True, slots=True)
class MiscCapacity:
    """How many of one kind the host has."""

    key: str
    amount: int


def read_misc_capacity(root: Place) -> Found[MiscCapacity]:
    """All kinds, by key. A line that is not `key number` is a problem and hides its kind only."""
    with root.sweep() as sweep:
        for path in PATHS:
            try:
                return _parse(path, sweep.read_text(path))
            except NotFoundError:
                continue
            except Error as error:
                return Found(problems=(problem_of(error, path),))
    return Found()


def misc_capacity(root: Place, key: str) -> int:
    """How many of `key` there are. NotFoundError where the host offers none, HardwareError where its line is wrong."""
    found = read_misc_capacity(root)
    for capacity in found.items:
        if capacity.key == key:
            return capacity.amount
    if found.problems:
        problem = found.problems[0]
        raise HardwareError(f"capacity {key!r} not found: {problem.message}", path=problem.path)
    raise NotFoundError(
        f"the host has no {key!r} in {PATHS[0]}: it needs the hardware, and a kernel that offers it",
        kind="misc capacity",
        name=key,
    )


def _parse(path: str, text: str) -> Found[MiscCapacity]:
    amounts: dict[str, int] = {}
    problems: list[Problem] = []
    for line in filter(str.strip, text.split("\n")):
        fields = line.split()
        amount = decimal(fields[1]) if len(fields) == 2 else None
        if amount is None or amount < 0:
            problems.append(Problem(path, showable(f"{path} has the line {line!r}, not a key and a number")))
        else:
            amounts.setdefault(showable(fields[0]), amount)
    return Found(tuple(MiscCapacity(key, amounts[key]) for key in sorted(amounts)), tuple(problems))
