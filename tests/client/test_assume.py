from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS, Resource
from dray.api.meta import ObjectMeta
from dray.client.assume import AssumeCache
from dray.client.client import Client
from dray.client.informer import Handler, Informer
from dray.client.store import Change, Deleted, Entry, Key, ReflectorState, WatchEvent, replay
from dray.errors import ConflictError, NotFoundError
from tests.campaign import campaign
from tests.client.answers import HANG, config_map, event, page
from tests.client.servers import ScriptedServer, lines


def obj(name: str, version: int | str, app: str = "", uid: str = "") -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}", resource_version=str(version))
    return ConfigMap(metadata=meta, data={"app": app})


def entry(value: ConfigMap) -> Entry[ConfigMap]:
    meta = value.metadata
    return Entry((meta.namespace, meta.name), meta.uid, meta.resource_version, value)


@dataclass
class Told:
    """The server's changes, as the reflector's own state machine tells them."""

    state: ReflectorState[ConfigMap] = field(default_factory=ReflectorState)
    handlers: list[Handler[ConfigMap]] = field(default_factory=list)
    resource: Resource[ConfigMap] = CONFIG_MAPS

    def on_change(self, handler: Handler[ConfigMap]) -> Callable[[], None]:
        self.handlers.append(handler)
        return lambda: self.handlers.remove(handler)

    def tell(self, changes: tuple[Change[ConfigMap], ...]) -> None:
        for change in changes:
            for handler in self.handlers:
                handler(change)

    def put(self, value: ConfigMap) -> None:
        version = value.metadata.resource_version
        self.tell(self.state.apply(WatchEvent("MODIFIED", entry(value), version)))

    def delete(self, name: str, version: int) -> None:
        known = self.state.get(("ns", name))
        assert known is not None
        self.tell(self.state.apply(WatchEvent("DELETED", known, str(version))))


A = ("ns", "a")


@pytest.fixture
def source() -> Told:
    return Told()


@pytest.fixture
def cache(source: Told) -> AssumeCache[ConfigMap]:
    cache = AssumeCache(source, indexers={"app": lambda item: [item.data["app"]]})
    source.put(obj("a", 5, "x"))
    return cache


def app(cache: AssumeCache[ConfigMap]) -> str | None:
    found = cache.by_key(A)
    return None if found is None else found.data["app"]


def test_assumed_until_the_informer_has_it(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    cache.assume(obj("a", 8, "ours"))
    assert (app(cache), cache.is_assumed(A)) == ("ours", True)
    source.put(obj("a", 6, "older"))
    source.put(obj("a", 8, "same version"))
    assert app(cache) == "ours"
    source.put(obj("a", 9, "newer"))
    assert (app(cache), cache.is_assumed(A)) == ("newer", False)


def test_an_answer_that_came_after_the_informer_is_nothing_new(
    source: Told, cache: AssumeCache[ConfigMap]
) -> None:
    told = list[str]()
    cache.on_change(lambda change: told.append(type(change).__name__))
    told.clear()
    source.put(obj("a", 8, "x"))
    cache.assume(obj("a", 8, "x"))
    assert told == ["Modified"]
    cache.assume(obj("a", 8, "y"))
    assert told == ["Modified", "Modified"]


def test_restore_gives_the_last_object_of_the_server(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    cache.assume(obj("a", 8, "ours"))
    source.put(obj("a", 6, "six"))
    cache.restore(A)
    assert app(cache) == "six"
    cache.restore(A)
    cache.restore(("ns", "nobody"))


def test_what_cannot_be_assumed(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    with pytest.raises(NotFoundError, match="configmaps ns/b: is not known"):
        cache.assume(obj("b", 9))
    with pytest.raises(ConflictError, match="version 5 is known, which 4 is not newer than"):
        cache.assume(obj("a", 4))
    with pytest.raises(ConflictError, match="another object"):
        cache.assume(obj("a", 9, uid="other"))
    cache.assume(obj("a", 5, "same version"))
    assert app(cache) == "same version"
    source.delete("a", 10)
    with pytest.raises(NotFoundError):
        cache.assume(obj("a", 11))


def test_numbers_are_compared_as_numbers(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    source.put(obj("a", 99, "x"))
    cache.assume(obj("a", 100, "y"))
    source.put(obj("a", 101, "z"))
    assert app(cache) == "z"


def test_opaque_versions(source: Told) -> None:
    """Equal or not: the server is believed, and only the known version can be assumed."""
    cache = AssumeCache(source)
    source.put(obj("a", "v-one", "one"))
    with pytest.raises(ConflictError):
        cache.assume(obj("a", "v-two", "two"))
    cache.assume(obj("a", "v-one", "ours"))
    assert app(cache) == "ours"
    source.put(obj("a", "v-two", "two"))
    assert app(cache) == "two"


def test_a_server_that_went_back_is_believed(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    """etcd restored from a backup: nothing assumed may hide the truth for ever."""
    cache.assume(obj("a", 1000, "ours"))
    source.tell(source.state.replace([entry(obj("a", 3, "restored"))], "3"))
    assert app(cache) == "restored"


def test_changes_are_told_for_both_and_indexes_follow(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    told = list[Change[ConfigMap]]()
    cache.on_change(told.append)
    cache.assume(obj("a", 8, "ours"))
    assert [len(cache.indexed("app", value)) for value in ("x", "ours")] == [0, 1]
    cache.restore(A)
    assert [len(cache.indexed("app", value)) for value in ("x", "ours")] == [1, 0]
    cache.assume(obj("a", 9, "again"))
    source.delete("a", 12)
    assert [type(change).__name__ for change in told] == ["Added", *["Modified"] * 3, "Deleted"]
    last = told[-1]
    assert isinstance(last, Deleted)
    assert (last.old.value.data["app"], last.version) == ("again", "12")
    assert (cache.indexed("app", "again"), len(cache), list(cache.values())) == ((), 0, [])


def test_a_handler_that_assumes_is_told_in_order(source: Told, cache: AssumeCache[ConfigMap]) -> None:
    first, second = list[str](), list[str]()

    def react(change: Change[ConfigMap]) -> None:
        assert not isinstance(change, Deleted)
        first.append(change.new.value.data["app"])
        if change.new.version == "6":
            cache.assume(obj("a", 7, "reaction"))

    def note(change: Change[ConfigMap]) -> None:
        assert not isinstance(change, Deleted)
        second.append(change.new.version)

    cache.on_change(react)
    cache.on_change(note)
    source.put(obj("a", 6, "six"))
    assert first == ["x", "six", "reaction"]
    assert second == ["5", "6", "7"]


NAMES = st.sampled_from("abc")


class Machine(RuleBasedStateMachine):
    """Against a model that keeps, for each object, the server's and the assumed state."""

    def __init__(self) -> None:
        super().__init__()
        self.source = Told()
        self.cache = AssumeCache(self.source, indexers={"app": lambda item: [item.data["app"]]})
        self.copy: dict[Key, Entry[ConfigMap]] = {}
        self.cache.on_change(lambda change: replay(self.copy, [change]))
        self.api: dict[str, ConfigMap] = {}
        self.assumed: dict[str, ConfigMap] = {}
        self.server: dict[str, list[ConfigMap]] = {}
        self.revision = 1
        self.uids = 0

    def write(self, name: str) -> ConfigMap:
        self.revision += 1
        known = self.newest(name)
        uid = known.metadata.uid if known is not None else f"uid-{self.uids}"
        self.uids += known is None
        value = obj(name, self.revision, f"app-{self.revision % 4}", uid)
        self.server.setdefault(name, []).append(value)
        return value

    def newest(self, name: str) -> ConfigMap | None:
        pending = self.server.get(name)
        return pending[-1] if pending else self.api.get(name)

    @rule(name=NAMES, assume=st.booleans())
    def write_and_maybe_assume(self, name: str, assume: bool) -> None:
        value = self.write(name)
        known = self.assumed.get(name, self.api.get(name))
        if not assume:
            return
        if known is None:
            with pytest.raises(NotFoundError):
                self.cache.assume(value)
        else:
            self.cache.assume(value)
            self.assumed[name] = value

    @rule(name=NAMES)
    @precondition(lambda self: any(self.server.values()))
    def informer_brings_the_next(self, name: str) -> None:
        if not self.server.get(name):
            return
        value = self.server[name].pop(0)
        self.source.state._version = ""  # each object's events are in order here, not all of them together
        self.source.put(value)
        self.api[name] = value
        ours = self.assumed.get(name)
        if ours is not None and int(ours.metadata.resource_version) < int(value.metadata.resource_version):
            del self.assumed[name]

    @rule(name=NAMES)
    def restore(self, name: str) -> None:
        self.cache.restore(("ns", name))
        self.assumed.pop(name, None)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.api and not self.server.get(name):
            self.revision += 1
            self.source.delete(name, self.revision)
            del self.api[name]
            self.assumed.pop(name, None)

    @rule(name=NAMES)
    def stale_assume_is_refused(self, name: str) -> None:
        known = self.assumed.get(name, self.api.get(name))
        if known is not None:
            meta = msgspec.structs.replace(known.metadata, resource_version="1")
            with pytest.raises(ConflictError):
                self.cache.assume(msgspec.structs.replace(known, metadata=meta))

    @invariant()
    def same_as_the_model(self) -> None:
        newest = {**self.api, **self.assumed}
        assert {key[1]: one.value for key, one in self.copy.items()} == newest
        for name in "abc":
            assert self.cache.by_key(("ns", name)) == newest.get(name)
            assert self.cache.from_api(("ns", name)) == self.api.get(name)
        for number in range(4):
            found = [newest[name] for name in sorted(newest) if newest[name].data["app"] == f"app-{number}"]
            assert list(self.cache.indexed("app", f"app-{number}")) == found


TestAssumeMachine = Machine.TestCase
TestAssumeMachine.settings = settings(max_examples=campaign(40, 5000), stateful_step_count=40)


async def test_on_a_real_informer(server: ScriptedServer, client: Client) -> None:
    server.answer(
        page(config_map("a", 3, app="x")),
        lines(
            event("MODIFIED", config_map("a", 12, app="late")),
            event("MODIFIED", config_map("a", 20, app="z")),
            end="hang",
            pause=0.1,
        ),
        HANG,
    )
    informer = Informer(client, CONFIG_MAPS)
    cache = AssumeCache(informer)
    async with informer:
        cache.assume(obj("a", 15, "ours"))
        await informer.wait_changed(1)
        assert app(cache) == "ours"
        await informer.wait_changed(2)
        assert app(cache) == "z"
