"""Why two profiles decide otherwise on a node: which switch or feature, taken over alone, gives the other answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload
from dray.allocation.faults import AllocationError, NodeAllocationError, StepLimitError
from dray.allocation.features import NAMES, Features
from dray.allocation.profiles import Profile
from dray.api.core.node import Node
from dray.semantics.features import Gate


def find_causes(one: Situation, other: Situation, workload: Workload, node: Node) -> tuple[str, ...]:
    """Switches of `Profile` and names of features; () where it takes several of them together, or too long."""
    try:
        return _causes(one, other, workload, node)
    except StepLimitError:
        return ()


def _causes(one: Situation, other: Situation, workload: Workload, node: Node) -> tuple[str, ...]:
    mine, theirs = _answer(one, workload, node), _answer(other, workload, node)
    if mine == theirs:
        return ()
    answers = ((name, _answer(tried, workload, node)) for name, tried in _steps(one, other))
    return tuple(name for name, got in answers if got != mine and (got is True) == (theirs is True))


def _steps(one: Situation, other: Situation) -> Iterator[tuple[str, Situation]]:
    """The first situation with one thing of the second."""
    for field in fields(Profile):
        theirs = getattr(other.profile, field.name)
        if field.name != "name" and theirs != getattr(one.profile, field.name):
            profile = replace(one.profile, **{field.name: theirs})
            yield field.name, one.like(profile, one.features)
    for field in fields(Features):
        theirs = getattr(other.features, field.name)
        if theirs != getattr(one.features, field.name):
            features = replace(one.features, **{field.name: theirs})
            yield NAMES.get(field.name, Gate.DEVICE_TAINT_RULES.value), one.like(one.profile, features)


def _answer(situation: Situation, workload: Workload, node: Node) -> bool | None:
    """Whether it fits; None where the attempt ends with an error."""
    try:
        return situation.allocator.allocate(node, workload.pending) is not None
    except StepLimitError:
        raise
    except NodeAllocationError:
        return False
    except AllocationError:
        return None
