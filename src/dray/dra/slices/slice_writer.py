"""The calls that a plan for slices asks for, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.api.codec import to_raw
from dray.api.kinds import RESOURCE_SLICES
from dray.api.resource.slice import ResourceSlice
from dray.client.client import Client
from dray.client.requests import DeleteOptions
from dray.dra.slices.known_slices import KnownSlices
from dray.dra.slices.publish_observer import PublishObserver
from dray.dra.slices.reconcile import Creation, Deletion, Step, Update
from dray.errors import ConflictError, NotFoundError
from dray.runtime.logs import get_log

_log = get_log("dra.slices")

STEPS: Final = ("slice deleted", "slice updated", "slice created")
"""What `reached` is told, each after it was done."""


class SliceWriter:
    """`known` learns of each write, so that the next plan starts from it."""

    def __init__(
        self, client: Client, known: KnownSlices, observer: PublishObserver, reached: Callable[[str], None]
    ) -> None:
        self._client = client
        self._known = known
        self._observer = observer
        self._reached = reached

    async def carry_out(self, step: Step) -> ResourceSlice | None:
        """One step; what the server stored, nothing for a deletion.

        ConflictError: the plan was made from an old picture; a new one is asked for next time.
        """
        try:
            return await self._carry_out(step)
        except ConflictError:
            self._known.distrust()
            raise

    async def _carry_out(self, step: Step) -> ResourceSlice | None:
        match step:
            case Deletion(old=old):
                await self.delete(old)
                return None
            case Update(new=new):
                # All of a slice is ours, so a new one takes its place as a whole, with fields that we do not know.
                try:
                    stored = await self._client.update(RESOURCE_SLICES, to_raw(new))
                except NotFoundError as error:
                    raise ConflictError(f"slice {new.metadata.name!r} was deleted meanwhile") from error
                return self._wrote("update", stored, "slice updated")
            case Creation(new=new):
                stored = await self._client.create(RESOURCE_SLICES, new)
                return self._wrote("create", stored, "slice created")

    async def delete(self, old: ResourceSlice) -> None:
        """This very one, as it was seen; fine where it is gone."""
        meta = old.metadata
        options = DeleteOptions(uid=meta.uid, resource_version=meta.resource_version)
        try:
            await self._client.delete(RESOURCE_SLICES, meta.name, options=options)
        except NotFoundError:
            _log.debug("slice was gone already", name=meta.name)
        self._known.deleted(old)
        self._observer.wrote("delete")
        self._reached("slice deleted")

    def _wrote(self, verb: str, stored: ResourceSlice, step: str) -> ResourceSlice:
        self._known.wrote(stored)
        self._observer.wrote(verb)
        self._reached(step)
        return stored
