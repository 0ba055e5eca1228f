"""When a deleted object really goes: grace periods, deletion times and the finalizers a deletion sets. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from dray.api.field_errors import FieldError, Path
from dray.api.meta import Int64, Model, format_time
from dray.api.validation.faults import invalid, not_supported
from dray.apiserver.custom.definition import CLEANUP, DEFINITIONS
from dray.apiserver.served import Document, Served

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
POLICIES: Final = ("Foreground", "Background", "Orphan")
_ENDED: Final = ("Failed", "Succeeded")
_LONGEST: Final = 2**32
"""Seconds that a time of deletion can be away; a grace may be any number, but times end with the year 9999."""


class Preconditions(Model, frozen=True, kw_only=True):
    """The state an object must be in to be deleted."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Model, frozen=True, kw_only=True):
    """The body of a deletion; its dry run is the request's."""

    grace_period_seconds: Int64 | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()


class Step(Enum):
    """What a deletion does to an object, finalizers aside."""

    NOW = auto()
    """It goes at once."""
    GRACEFUL = auto()
    """It is marked; somebody deletes it again, with a grace of 0, when it is ready."""
    PENDING = auto()
    """It is marked already, and this deletion does not make it go sooner."""


def check_options(options: DeleteOptions) -> list[FieldError]:
    """What is wrong with the options themselves."""
    path, policy = Path("propagationPolicy"), options.propagation_policy
    errors = []
    if options.orphan_dependents is not None and policy is not None:
        errors.append(invalid(path, policy, "orphanDependents and deletionPropagation cannot be both set"))
    if policy is not None and policy not in POLICIES:
        errors.append(not_supported(path, policy, (*POLICIES, "nil")))
    return errors


def begin(document: Document, served: Served, asked: int | None, now: datetime) -> tuple[Step, int]:
    """Mark the document where it dies gracefully, and say what is to be done and with which grace.

    Only pods die gracefully; for other kinds a deletion is immediate unless finalizers hold it up.
    """
    metadata = document["metadata"]
    if asked is not None and asked < 0:
        asked = 1
    if served.resource.kind != "Pod" or not served.typed:
        return Step.NOW, 0
    if metadata.get("deletionTimestamp"):
        return _again(metadata, asked, now)
    period = _pod_grace(document, asked)
    metadata["deletionTimestamp"] = format_time(now + timedelta(seconds=min(period, _LONGEST)))
    metadata["deletionGracePeriodSeconds"] = period
    _count(metadata)
    return Step.GRACEFUL, period


def _pod_grace(document: Document, asked: int | None) -> int:
    """A pod that runs nowhere, or no longer, needs no time."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _ENDED:
        return 0
    period: int = spec.get("terminationGracePeriodSeconds") or 0 if asked is None else asked
    return period if period >= 0 else 1


def _again(metadata: Document, asked: int | None, now: datetime) -> tuple[Step, int]:
    """A second deletion can only make it shorter."""
    before: int = metadata.get("deletionGracePeriodSeconds") or 0
    if not before:
        return Step.NOW, 0
    if asked is None or asked >= before:
        return Step.PENDING, before
    marked = datetime.fromisoformat(metadata["deletionTimestamp"])
    until = marked - timedelta(seconds=min(before, _LONGEST)) + timedelta(seconds=min(asked, _LONGEST))
    period = asked
    if until < now:
        until, period = now, min(asked, 1)
    metadata["deletionTimestamp"] = format_time(until)
    metadata["deletionGracePeriodSeconds"] = period
    return Step.GRACEFUL, asked


def mark(metadata: Document, now: datetime) -> None:
    """An object without grace that finalizers hold up: it is dead from now on."""
    _count_first(metadata)
    marked = metadata.get("deletionTimestamp")
    if not marked or datetime.fromisoformat(marked) > now:
        metadata["deletionTimestamp"] = format_time(now)
    metadata["deletionGracePeriodSeconds"] = 0


def _count_first(metadata: Document) -> None:
    if not metadata.get("deletionTimestamp"):
        _count(metadata)


def _count(metadata: Document) -> None:
    """Being deleted is a change that controllers must see."""
    if metadata.get("generation"):
        metadata["generation"] += 1


def finalizers_after(metadata: Document, options: DeleteOptions, served: Served) -> list[str]:
    """The finalizers with those that stand for the propagation policy put in or taken out; a definition waits for its objects."""
    before: list[str] = list(metadata.get("finalizers") or ())
    others = [one for one in before if one not in (ORPHAN, FOREGROUND)]
    if str(served.resource) == DEFINITIONS and CLEANUP not in others:
        others.append(CLEANUP)
    if not served.collects:
        return others
    wanted = _wanted(before, options, served)
    after = [*others, wanted] if wanted else others
    return before if {*before} == {*after} else after


def _wanted(before: list[str], options: DeleteOptions, served: Served) -> str:
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else ""
    if options.propagation_policy is not None:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation_policy, "")
    for one in (ORPHAN, FOREGROUND):
        if one in before:
            return one
    return ORPHAN if served.orphans else ""


def set_finalizers(holder: Document, finalizers: list[str]) -> None:
    """Put the list into metadata, or into a namespace's spec; an empty one is left out."""
    holder.pop("finalizers", None)
    if finalizers:
        holder["finalizers"] = finalizers


def goes_with_update(old: Document, new: Document) -> bool:
    """Whether an update took the last finalizer of an object whose time is over: then it goes for good."""
    before, after = old["metadata"], new["metadata"]
    if after.get("finalizers") or not before.get("deletionTimestamp"):
        return False
    if new.get("kind") == "Namespace" and (new.get("spec") or {}).get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")
