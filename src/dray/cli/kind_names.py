"""What people call kinds (`po`, `claims`, `deploy`), and which objects the words of a command mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api import kinds
from dray.api.kinds import Resource
from dray.api.meta import Model, ObjectMeta
from dray.client.client import Client
from dray.client.http import Request
from dray.errors import InvalidError

DEVICES, PLUGINS = "devices", "plugins"
"""What is no kind of an API server: rows of slices, and what a kubelet tells."""
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OWN: Final[dict[str, tuple[Resource[Any], tuple[str, ...]]]] = {
    "nodes": (kinds.NODES, ("node", "no")),
    "pods": (kinds.PODS, ("pod", "po")),
    "claims": (kinds.RESOURCE_CLAIMS, ("claim", "resourceclaims", "resourceclaim")),
    "claimtemplates": (
        kinds.RESOURCE_CLAIM_TEMPLATES,
        ("claimtemplate", "templates", "template", "resourceclaimtemplates", "resourceclaimtemplate", "rct"),
    ),
    "classes": (kinds.DEVICE_CLASSES, ("class", "deviceclasses", "deviceclass", "dc")),
    "slices": (kinds.RESOURCE_SLICES, ("slice", "resourceslices", "resourceslice")),
    "events": (kinds.EVENTS, ("event", "ev")),
    "taintrules": (kinds.DEVICE_TAINT_RULES, ("taintrule", "devicetaintrules", "devicetaintrule")),
    "namespaces": (kinds.NAMESPACES, ("namespace", "ns")),
    "configmaps": (kinds.CONFIG_MAPS, ("configmap", "cm")),
    "leases": (kinds.LEASES, ("lease",)),
}
_DERIVED: Final = {
    DEVICES: DEVICES,
    "device": DEVICES,
    "dev": DEVICES,
    PLUGINS: PLUGINS,
    "plugin": PLUGINS,
}


class AnyObject(Model, frozen=True, kw_only=True):
    """An object of a kind that Dray has no type for."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class Kind:
    """`view` names how it is shown; `resource` is None for what is derived from other objects."""

    view: str
    resource: Resource[Any] | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is a type, and rows of our own."""
        return self.resource is None or self.resource.type is not AnyObject

    @property
    def namespaced(self) -> bool:
        """Whether its objects live in namespaces."""
        return self.resource is not None and self.resource.namespaced

    @property
    def singular(self) -> str:
        """What one of them is called in messages: `claim`, `node`."""
        own = {"classes": "class", DEVICES: "device", PLUGINS: "plugin"}
        return own.get(self.view) or (
            self.view.removesuffix("s")
            if self.view in _OWN
            else (self.resource.kind.lower() if self.resource else self.view)
        )

    @property
    def typed_name(self) -> str:
        """In front of a name in what is printed: `pod`, `resourceclaim.resource.k8s.io`."""
        if self.resource is None:
            return self.singular
        kind, group = self.resource.kind.lower(), self.resource.group
        return f"{kind}.{group}" if group else kind


@dataclass(frozen=True, slots=True)
class Target:
    """Objects of one kind that a command names; no names: all of them."""

    kind: Kind
    names: tuple[str, ...] = ()


def own_kind(word: str) -> Kind | None:
    """A kind that Dray knows by this word; None for others."""
    word = word.lower()
    if word in _DERIVED:
        return Kind(_DERIVED[word])
    for view, (resource, others) in _OWN.items():
        if word in (view, *others, str(resource), f"{resource.kind.lower()}.{resource.group}"):
            return Kind(view, resource)
    return None


def own_words() -> list[str]:
    """The main names, for help and completion."""
    return sorted({*_OWN, *_DERIVED.values()})


class Kinds:
    """The kinds of one server. What it serves is asked for once, and only for what Dray does not know itself."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: list[tuple[Resource[Any], tuple[str, ...]]] | None = None

    def forget(self) -> None:
        """Ask anew: a definition was written."""
        self._served = None

    async def find(self, word: str) -> Kind:
        """The kind that people mean by this word."""
        if (own := own_kind(word)) is not None:
            return own
        known: list[str] = []
        for resource, words in await self._all():
            if word.lower() in words:
                return Kind(resource.plural, resource)
            known += words
        raise no_kind(word, known)

    async def of_document(self, api_version: str, kind: str) -> Kind:
        """The kind of a document with this `apiVersion` and `kind`."""
        for view, (resource, _) in _OWN.items():
            if (resource.api_version, resource.kind) == (api_version, kind):
                return Kind(view, resource)
        names = []
        for resource, _ in await self._all():
            if (resource.api_version, resource.kind) == (api_version, kind):
                return Kind(resource.plural, resource)
            names.append(f"{resource.api_version} {resource.kind}")
        names += [f"{resource.api_version} {resource.kind}" for resource, _ in _OWN.values()]
        near = nearest(f"{api_version} {kind}", names)
        hint = f"; did you mean {near}?" if near else ""
        raise InvalidError(
            f'the server has no kind "{kind}" in apiVersion "{api_version}"{hint}', field="kind"
        )

    async def _all(self) -> list[tuple[Resource[Any], tuple[str, ...]]]:
        if self._served is None:
            found: list[tuple[Resource[Any], tuple[str, ...]]] = []
            for path in ("/api", "/apis"):
                told = await self._client.raw(Request("GET", path, accept=_AGGREGATED))
                for group in told.get("items") or ():
                    name = str((group.get("metadata") or {}).get("name") or "")
                    found += _of_group(name, group.get("versions") or ())
            self._served = found
        return self._served


def no_kind(word: str, known: Iterable[str] = ()) -> InvalidError:
    """For a word that is no kind."""
    words = {*known, *own_words(), *(other for _, others in _OWN.values() for other in others)}
    near = nearest(word.lower(), words)
    hint = f"did you mean {near}?" if near else f"some are {', '.join(own_words())}"
    return InvalidError(f'the server has no kind "{word}"; {hint}', field="KIND")


def nearest(word: str, known: Iterable[str]) -> str:
    """What was probably meant; "" where nothing is near."""
    found = difflib.get_close_matches(word, sorted(set(known)), n=1, cutoff=0.6)
    return found[0] if found else ""


def _of_group(group: str, versions: Sequence[Any]) -> Iterator[tuple[Resource[Any], tuple[str, ...]]]:
    for version in versions:
        for one in version.get("resources") or ():
            plural = str(one.get("resource", ""))
            if not plural:
                continue
            kind = str((one.get("responseKind") or {}).get("kind", ""))
            resource = Resource(
                group, str(version["version"]), plural, kind, one.get("scope") == "Namespaced", AnyObject
            )
            words = [plural, one.get("singularResource") or kind.lower(), *(one.get("shortNames") or ())]
            yield resource, (*words, *(f"{word}.{group}" for word in words[:2] if group))


async def read_targets(words: Sequence[str], client: Client) -> list[Target]:
    """`KIND NAME…`, `KIND,KIND`, or `KIND/NAME…`."""
    if not words:
        raise InvalidError(f"name a kind: one of {', '.join(own_words())}", field="KIND")
    kinds_there = Kinds(client)
    slashed = [word for word in words if "/" in word]
    if not slashed or own_kind(words[0]) == Kind(DEVICES):
        found = [await kinds_there.find(word) for word in words[0].split(",") if word]
        return [Target(kind, tuple(words[1:])) for kind in found]
    if len(slashed) < len(words):
        raise InvalidError(
            f"write KIND NAME… or KIND/NAME for each; {words[0]!r} beside {slashed[0]!r} is a mix of both",
            field="KIND",
        )
    by_kind: dict[Kind, list[str]] = {}
    for word in slashed:
        name, _, rest = word.partition("/")
        by_kind.setdefault(await kinds_there.find(name), []).append(rest)
    return [Target(kind, tuple(names)) for kind, names in by_kind.items()]
