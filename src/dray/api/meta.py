"""What every Kubernetes object carries: metadata, owner references, conditions, times, lists and the Status answer.

All types here and in `core` and `resource` are *views*: unknown fields are ignored when decoding, so never write a
decoded view back in place of the document it came from (patch, or keep the document).
Absent pointers are None, absent strings "", absent lists () and absent maps {}.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from dray.errors import InvalidError

T = TypeVar("T")

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A point in time; Kubernetes keeps whole seconds (`to_time`)."""
_MICRO = r"^\d{4}-(0\d|1[0-2])-[0-3]\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}(Z|[+-]\d\d:\d\d)\Z"
MicroTime = Annotated[str, msgspec.Meta(pattern=_MICRO)]
"""A time with exactly six fraction digits, kept as text because Go refuses any other number of digits."""


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of the typed views: frozen trees without cycles, so the garbage collector need not visit them."""


def always(text: str) -> Callable[[], str]:
    """A default that is written out even where defaults are omitted: for `apiVersion` and `kind`."""
    return lambda: text


class OwnerReference(Model, frozen=True, kw_only=True):
    """Who owns this object; the object goes when its last owner goes."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Model, frozen=True, kw_only=True):
    """Which fields a manager set; `fields_v1` stays undecoded JSON."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time | None = None
    fields_type: str = ""
    fields_v1: Any = None
    subresource: str = ""


class ObjectMeta(Model, frozen=True, kw_only=True):
    """The `metadata` of every object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()

    @property
    def controller_uid(self) -> str:
        """The UID of the owner that controls it, "" where there is none."""
        return next((one.uid for one in self.owner_references if one.controller), "")


class ShardInfo(Model, frozen=True, kw_only=True):
    """Which shard a list answer holds."""

    selector: str = ""


class ListMeta(Model, frozen=True, kw_only=True):
    """The `metadata` of a list: where a watch may start, and how to ask for the next page."""

    self_link: str = ""
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: Int64 | None = None
    shard_info: ShardInfo | None = None


class ObjectList(Model, Generic[T], frozen=True, kw_only=True):
    """A list answer, `ObjectList[Pod]`. The items of a real server's list carry no apiVersion and kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class Condition(Model, frozen=True, kw_only=True):
    """One observed aspect of an object (the common form; pods and nodes have their own)."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class StatusCause(Model, frozen=True, kw_only=True):
    """One fault inside a Status: `reason` is one of `field_errors.Reason`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model, frozen=True, kw_only=True):
    """What a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int32 = 0


class Status(Model, frozen=True, kw_only=True):
    """The API server's answer where it does not return an object; every error comes as one."""

    api_version: str = msgspec.field(default_factory=always("v1"))
    kind: str = msgspec.field(default_factory=always("Status"))
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: Int32 = 0


def to_time(moment: datetime) -> datetime:
    """The moment as Kubernetes would store it: UTC, whole seconds."""
    return moment.astimezone(UTC).replace(microsecond=0)


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as in `creationTimestamp`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """RFC 3339 in UTC with six fraction digits, as in a Lease's `renewTime`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_micro_time(text: str) -> datetime:
    """The time a `MicroTime` field holds. The decoder has checked its form, but not that the day exists."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidError(f"{text!r} is not a time") from None
