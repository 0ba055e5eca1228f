"""Who holds a device, and when two may not: the one rule by which a double allocation is refused, whoever checks.

Admin access holds nothing and is held up by nothing. Shares of a device (results with a `shareID`) go together with
other shares, not with a whole allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dray.api.resource import ResourceClaim
from dray.errors import InvalidError


class Held(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One allocated device, as far as it matters who holds it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str | int | float] | None = None

    @property
    def place(self) -> str:
        """Names the device; none of the parts may hold the sign between them."""
        return f"{self.driver}|{self.pool}|{self.device}"

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class _Devices(msgspec.Struct, frozen=True, gc=False):
    results: tuple[Held, ...] = ()


class _Allocation(msgspec.Struct, frozen=True, gc=False):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True, gc=False):
    allocation: _Allocation | None = None


class _Claim(msgspec.Struct, frozen=True, gc=False):
    status: _Status | None = None


_decode: Final = msgspec.json.Decoder(_Claim).decode


def held_in(raw: bytes) -> tuple[Held, ...]:
    """The devices that a claim's document holds, in any version of the API; InvalidError where it cannot be read."""
    if b'"allocation"' not in raw:
        return ()
    try:
        status = _decode(raw).status
    except msgspec.MsgspecError as error:
        raise InvalidError(
            f"status.allocation: cannot be read: {error}", field="status.allocation"
        ) from error
    allocation = status.allocation if status is not None else None
    return tuple(one for one in allocation.devices.results if not one.admin_access) if allocation else ()


def held_of(claim: ResourceClaim) -> tuple[Held, ...]:
    """The devices that a claim holds."""
    allocation = claim.status.allocation
    return tuple(
        Held(
            one.driver,
            one.pool,
            one.device,
            None,
            one.share_id,
            {name: str(amount) for name, amount in one.consumed_capacity.items()} or None,
        )
        for one in (allocation.devices.results if allocation is not None else ())
        if not one.admin_access
    )


def clashes(wanted: Held, held: Held) -> bool:
    """Whether one of the two wants the whole device, or both the same share of it."""
    is_shared = wanted.share_id and held.share_id and wanted.share_id != held.share_id
    return wanted.place == held.place and not is_shared


def given_twice(results: Sequence[Held]) -> Held | None:
    """A device that one claim would get twice."""
    return next(
        (one for number, one in enumerate(results) if any(clashes(one, other) for other in results[:number])),
        None,
    )


def clash(wanted: Iterable[Held], held: Iterable[Held]) -> Held | None:
    """The first device that cannot be given because of what is held."""
    held = tuple(held)
    return next((one for one in wanted if any(clashes(one, other) for other in held)), None)
