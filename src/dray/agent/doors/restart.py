"""What a DRA driver puts right after a kill: who holds devices, and what claims tell of them.

Both are written after the kubelet was answered, and the kubelet does not ask again: a process that was killed in between
leaves them to its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.dra.claims.prepare import Preparer
from dray.dra.parcels import ClaimRef
from dray.dra.status import ClaimStatus
from dray.errors import Error
from dray.inventory.holds import Holds
from dray.inventory.ledger import Door
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("agent")
_HOLDS_SECONDS: Final = 60.0
_AGAIN: Final = 5.0


async def keep_holds(holds: Holds, kind: str, preparer: Preparer, clock: Clock) -> NoReturn:
    """Free what the ledger still has of claims that were given back; in a rolling update, by the process before us."""
    while True:
        await holds.wait_ours()
        try:
            await preparer.noted()
        except Error as error:
            _log.warning("holds of claims are not compared with what is prepared", error=str(error))
        else:
            # Without a pause since: a claim is noted before it takes its devices, and is forgotten after it gave them back.
            noted = {ref.uid for ref in preparer.known}
            for one in holds.current.holds:
                if one.door is Door.DRA and one.kind == kind and one.confirmed and one.uid not in noted:
                    namespace, _, name = one.owner.partition("/")
                    holds.give_back_claim(kind, ClaimRef(namespace, name, one.uid))
        await clock.sleep(_HOLDS_SECONDS)


async def tell_again(
    client: Client,
    is_ours: Callable[[ResourceClaim], bool],
    driver: str,
    preparer: Preparer,
    status: ClaimStatus,
    clock: Clock,
) -> None:
    """Once after a start: `status.devices` of all claims that are allocated to us, as what is prepared says."""
    while True:
        try:
            claims = (await client.list(RESOURCE_CLAIMS)).items
            await preparer.noted()  # after the list: what another process had prepared by then is known now
            break
        except Error as error:
            _log.debug("status of claims is not compared yet", driver=driver, error=str(error))
            await clock.sleep(_AGAIN)
    for claim in filter(is_ours, claims):
        meta = claim.metadata
        ref = ClaimRef(meta.namespace, meta.name, meta.uid)
        # Looked at and told without a pause between: whatever happens to the claim later is told later.
        devices = preparer.answered(ref)
        if devices:
            status.prepared(claim, devices)
        elif devices is None and any(one.driver == driver for one in claim.status.devices):
            status.unprepared(ref)
