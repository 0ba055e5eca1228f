"""The agent's configuration as an object of the API server: a KubeVirt object or a ConfigMap, followed as it changes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

import msgspec

from dray.agent.config import Served
from dray.agent.config.config_place import (
    KUBEVIRTS,
    ConfigMapPlace,
    KubeVirtObject,
    KubeVirtPlace,
    object_text,
    parse_additions,
    selection,
    text_of,
)
from dray.agent.config.config_source import ConfigSource, Labels, OnRefusal, Text, read_text
from dray.agent.config.last_known import LastKnown
from dray.api.core import ObjectReference
from dray.api.kinds import CONFIG_MAPS, Resource
from dray.api.meta import Model
from dray.client.client import Client
from dray.client.decode import meta_of
from dray.client.reflector import Reflector, ReflectorConfig
from dray.errors import Error, InvalidError, NotFoundError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first

V = TypeVar("V", bound=Model)

_log = get_log("config")

PATIENCE: Final = (2.0, 10.0)
"""Seconds to wait for the API server at start: where there is a good configuration of an earlier run, and where there is
none, so that nothing can be served. Whoever supervises this tries again then."""


class GoodConfig(msgspec.Struct, frozen=True):
    """What is kept for the next start. `place`: what another `--config` said is not used."""

    place: str
    text: str
    source: str


LAYOUT: Final = Format(GoodConfig)


class ClusterConfig(ConfigSource):
    """Entered: the API server has answered, or there is a good configuration of an earlier run. Left: stopped.

    `additions` is Dray's part (`dray:`) for a KubeVirt object, which has no room for it. An object that is deleted, bad
    or out of reach changes nothing: the last good text stays in force, also over a restart.
    """

    def __init__(
        self,
        client: Client,
        place: KubeVirtPlace | ConfigMapPlace,
        labels: Labels,
        *,
        kept: LastKnown[GoodConfig],
        clock: Clock,
        additions: Path | ConfigMapPlace | None = None,
        on_refusal: OnRefusal | None = None,
        patience: tuple[float, float] = PATIENCE,
    ) -> None:
        super().__init__(labels, on_refusal)
        if additions is not None and not isinstance(place, KubeVirtPlace):
            raise InvalidError(
                "--additions: is for a KubeVirt object; write `dray:` into the ConfigMap", field="--additions"
            )
        self._name = str(place) if additions is None else f"{place} + {additions}"
        self._client = client
        self._clock = clock
        self._kept = kept
        self._patience = patience
        self._objects: list[_Watched[Any]] = []
        self._files_read = (additions,) if isinstance(additions, Path) else ()
        self._written = self._reader(place, additions)
        self._former: GoodConfig | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> ClusterConfig:
        known = self._kept.load()
        self._former = known if known is not None and known.place == self._name else None
        async with AsyncExitStack() as stack:
            for one in self._objects:
                await stack.enter_async_context(one.reflector)
            patience = self._patience[self._former is None]
            await wait_first(self._wait_answered(), self._clock.sleep(patience))
            if self._former is None:
                for one in self._objects:
                    await one.require()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def load(self) -> Served:
        """As of a file; where it is not good now, the last good one of an earlier run, and that is told."""
        try:
            return self._first()
        except Error as error:
            former = self._former
            if former is None:
                self._announce(error)
                raise
            self._refuse(error)
            _log.warning("starting with the last good configuration", config=self._name, source=former.source)
            return self._parse(self._labelled(Text(former.text, former.source)))

    def _document(self) -> Text:
        return self._written()

    def _reader(
        self, place: KubeVirtPlace | ConfigMapPlace, additions: Path | ConfigMapPlace | None
    ) -> Callable[[], Text]:
        """How to read the whole configuration; what it takes is watched from the next entering on."""
        if isinstance(place, ConfigMapPlace):
            maps = self._watch(place, CONFIG_MAPS)
            return lambda: Text(text_of(place, maps.find()), str(place))
        objects = self._watch(place, KUBEVIRTS)
        beside = self._beside(additions)
        return lambda: _object_with(objects.find(), beside())

    def _beside(self, additions: Path | ConfigMapPlace | None) -> Callable[[], Any]:
        """How to read Dray's part; it gives None without any."""
        if additions is None:
            return lambda: None
        source = str(additions)
        if isinstance(additions, Path):
            return lambda: parse_additions(read_text(additions, "--additions"), source)
        maps = self._watch(additions, CONFIG_MAPS)
        return lambda: parse_additions(text_of(additions, maps.find()), source)

    def _watch(self, place: KubeVirtPlace | ConfigMapPlace, resource: Resource[V]) -> _Watched[V]:
        watched = _Watched(self._client, place, resource, self._clock)
        self._objects.append(watched)
        return watched

    def _files(self) -> tuple[Path, ...]:
        return self._files_read

    def _waits(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [*super()._waits(), *(one.waiting() for one in self._objects)]

    def _about(self) -> tuple[ObjectReference, ...]:
        return tuple(reference for one in self._objects for reference in one.references())

    def _accepted(self, text: Text) -> None:
        self._kept.save(GoodConfig(self._name, text.text, text.source))

    async def _wait_answered(self) -> None:
        for one in self._objects:
            await one.reflector.wait_synced()


class _Watched(Generic[V]):
    """One object, or the only one of its kind, as the API server has it."""

    def __init__(
        self, client: Client, place: KubeVirtPlace | ConfigMapPlace, resource: Resource[V], clock: Clock
    ) -> None:
        self._client = client
        self._place = place
        self._resource = resource
        config = ReflectorConfig(wait_synced=False)
        self.reflector: Reflector[V] = Reflector(client, resource, selection(place), config, clock=clock)

    async def require(self) -> None:
        """Return if the API server has answered; raise why it has not."""
        if not self.reflector.stats.lists:
            await self._client.list(self._resource, selection(self._place))

    def find(self) -> V:
        """The object; an Error says why there is none."""
        stats = self.reflector.stats
        if not stats.lists:
            why = f": {stats.last_failure}" if stats.last_failure else ""
            raise UnavailableError(f"{self._place}: the API server has not answered yet{why}")
        found = sorted(self.reflector.snapshot().entries.items())
        if len(found) > 1:
            names = ", ".join("/".join(key) for key, _ in found)
            raise InvalidError(f"{self._place}: there are several, name one of {names}", field="--config")
        if not found:
            unreadable = "; ".join(one.reason for one in self.reflector.unreadable.values())
            if unreadable:
                raise InvalidError(f"{self._place}: cannot be read: {unreadable}", field=str(self._place))
            raise NotFoundError(
                f"{self._place}: there is no such object", kind=self._resource.kind, name=self._place.name
            )
        return found[0][1].value

    def references(self) -> list[ObjectReference]:
        """For Events."""
        return [
            ObjectReference(
                api_version=self._resource.api_version,
                kind=self._resource.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
            for meta in map(meta_of, self.reflector.snapshot().values())
        ]

    def waiting(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Returns when something is newer than it is right now."""
        generation = self.reflector.generation

        async def wait() -> None:
            await self.reflector.wait_changed(generation)

        return wait


def _object_with(found: KubeVirtObject, additions: Any) -> Text:
    meta = found.metadata
    return Text(object_text(found, additions), f"kubevirt:{meta.namespace}/{meta.name}")
