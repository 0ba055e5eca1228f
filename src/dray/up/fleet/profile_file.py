"""Reads `--sim PROFILE`: one of the shipped profiles by its name, or a YAML file of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.agent.config.reading import read_view, report
from dray.allocation.selector import check_selector
from dray.api.codec import load_values
from dray.api.codec.unknown_fields import unknown_fields
from dray.api.field_errors import FieldError, Reason
from dray.api.field_errors import Path as FieldPath
from dray.dra.slices.layout import COUNTERS_APART
from dray.drivers import sim
from dray.drivers.sim.profile import SimProfile
from dray.drivers.sim.profile_validation import validate_profile
from dray.errors import InvalidError
from dray.runtime.files.oserrors import from_os_error
from dray.up.fleet.objects import HollowNode, pool_slices

SHIPPED: Final = Path(sim.__file__).with_name("profiles")
_SUFFIX: Final = ".yaml"


def profile_names() -> tuple[str, ...]:
    """The shipped ones, sorted."""
    return tuple(sorted(path.stem for path in SHIPPED.glob(f"*{_SUFFIX}")))


def load_profile(name: str) -> SimProfile:
    """A shipped profile by its name, else a file. InvalidError has all faults in `causes`, each with its line in the text."""
    shipped = name in profile_names()
    path = SHIPPED / f"{name}{_SUFFIX}" if shipped else Path(name)
    if not shipped and not path.is_file():
        known = ", ".join(profile_names())
        raise InvalidError(
            f"--sim: there is no profile {name!r} and no such file: choose from {known}, or give a YAML file",
            field="--sim",
        )
    try:
        text = path.read_bytes()
    except OSError as error:
        raise from_os_error(error, "read the profile", str(path)) from error
    return read_profile(text, f"{name}{_SUFFIX}" if shipped else name)


def read_profile(text: str | bytes, source: str) -> SimProfile:
    """The profile in a YAML or JSON text; `source` is its file, for errors."""
    documents = load_values(text, source)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InvalidError(f"{source}: must be one map with local, classes and groups", field=source)
    (document,) = documents
    root = FieldPath()
    profile, faults = read_view(document.value, SimProfile, root)
    faults = unknown_fields(document.value, SimProfile, root) + faults
    faults = faults or validate_profile(profile, root) or list(_untold(profile))
    if faults:
        raise report(source, document.value, document.lines, faults)
    return profile


def _untold(profile: SimProfile) -> Iterator[FieldError]:
    """Selectors that do not compile, and what the API would not take of a device; each kind of node is made once to see."""
    for position, one in enumerate(profile.classes):
        path = FieldPath("classes").index(position).child("expression")
        yield from check_selector(one.expression, path, False)
    for position, group in enumerate(profile.groups):
        here = FieldPath("groups").index(position)
        kinds = {0, *(fault.first for fault in group.faults)}
        told = {
            f"{problem.path}: {problem.message}": None
            for number in sorted(kinds)
            for pool in pool_slices(HollowNode(group, number), COUNTERS_APART)
            for problem in pool.problems
        }
        yield from (FieldError(here.child("devices").text, Reason.INVALID, text) for text in told)
