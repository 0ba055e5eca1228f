"""Reads the objects that a view is made of: its own kind and those it is explained by, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from dray.api.core import Event, Node, Pod
from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.api.meta import Model
from dray.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.cli.cluster import Asked
from dray.client import requests
from dray.client.client import PAGE_SIZE, Client
from dray.client.failures import ExpiredError
from dray.client.requests import ALL, Selection
from dray.errors import DeniedError, Error, NotFoundError

T = TypeVar("T", bound=Model)

_FLEET: Final = (RESOURCE_SLICES, RESOURCE_CLAIMS, DEVICE_TAINT_RULES)
RELATED: Final[Mapping[str, tuple[Resource[Any], ...]]] = {
    "nodes": (*_FLEET, PODS),
    "pods": (RESOURCE_CLAIMS,),
    "claims": (PODS, DEVICE_CLASSES),
    "devices": _FLEET,
    "classes": (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES),
}
"""What the rows of a view need besides their own kind. Without the right to read it, their cells stay empty."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of the kinds that were asked for, as they were at about `now`; `notes` say what could not be read."""

    now: datetime
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    events: tuple[Event, ...] = ()
    rules: tuple[DeviceTaintRule, ...] = ()
    notes: tuple[str, ...] = ()


_FIELDS: Final[Mapping[Resource[Any], str]] = {
    NODES: "nodes",
    PODS: "pods",
    RESOURCE_SLICES: "slices",
    RESOURCE_CLAIMS: "claims",
    RESOURCE_CLAIM_TEMPLATES: "templates",
    DEVICE_CLASSES: "classes",
    EVENTS: "events",
    DEVICE_TAINT_RULES: "rules",
}


def objects_of(
    now: datetime, found: Mapping[Resource[Any], Iterable[Any]], notes: Iterable[str] = ()
) -> Objects:
    """From lists by kind; kinds that explain nothing are left out."""
    known = {_FIELDS[one]: tuple(items) for one, items in found.items() if one in _FIELDS}
    return Objects(now, **known, notes=tuple(notes))


def items_of(objects: Objects, resource: Resource[T]) -> tuple[T, ...]:
    """Those of one kind."""
    found: tuple[T, ...] = getattr(objects, _FIELDS[resource])
    return found


async def read_related(
    asked: Asked, resources: Iterable[Resource[Any]], now: Callable[[], datetime]
) -> Objects:
    """All of these, side by side. One that this user may not read, or that the server has not, is none and a note."""
    wanted = sorted(set(resources), key=str)
    notes: list[str] = []
    tasks: dict[Resource[Any], asyncio.Task[tuple[Any, ...]]] = {}
    asked.say(f"reading {', '.join(map(str, wanted))}")
    try:
        async with asyncio.TaskGroup() as group:
            for one in wanted:
                tasks[one] = group.create_task(_all_or_here(asked, one, notes))
    except* Error as failures:
        raise first_of(failures) from None
    return objects_of(now(), {one: task.result() for one, task in tasks.items()}, sorted(notes))


async def _all_or_here(asked: Asked, resource: Resource[T], notes: list[str]) -> tuple[T, ...]:
    """Of all namespaces, for a holder may be anywhere; with the right for one alone, of that one."""
    try:
        return (await asked.client.list(resource, ALL)).items
    except NotFoundError:
        return ()
    except DeniedError as error:
        if not error.authenticated:
            raise
    notes.append(f"may not list {resource} cluster-wide, so some cells are empty")
    if not resource.namespaced:
        return ()
    try:
        return (await asked.client.list(resource, Selection(namespace=asked.namespace))).items
    except DeniedError:
        return ()


async def list_raw(client: Client, resource: Resource[Any], selection: Selection) -> list[dict[str, Any]]:
    """The whole documents, with their `apiVersion` and `kind`, which lists leave out."""
    items: list[Any] = []
    limit, token = PAGE_SIZE, ""
    while True:
        request = requests.page(resource, selection, limit=limit, continue_token=token)
        try:
            page = await client.raw(request)
        except ExpiredError:
            items, limit, token = [], 0, ""
            continue
        items += page.get("items") or ()
        before, token = token, str((page.get("metadata") or {}).get("continue") or "")
        if not token or token == before:
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            return [head | one for one in items if isinstance(one, dict)]


def first_of(failures: BaseExceptionGroup[Error]) -> Error:
    """One of several that came at once, mostly for one and the same reason."""
    found: Error | BaseExceptionGroup[Error] = failures
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
