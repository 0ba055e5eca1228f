"""What a path names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from dray.api.names import path_segment
from dray.apiserver.forms import Form, form_of
from dray.apiserver.served import Served, Serving
from dray.errors import InvalidError, NotFoundError

_NOWHERE = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class Place:
    """A collection, an object, or a door of one. `version` is the one the client speaks."""

    served: Served
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def form(self) -> Form:
        """How objects look from here."""
        return form_of(self.served, self.version)

    @property
    def is_collection(self) -> bool:
        """Without a name."""
        return not self.name


@dataclass(frozen=True, slots=True)
class Group:
    """What discovery tells: all groups (both empty), a group, or one version of it. The core group is ""."""

    core: bool
    group: str = ""
    version: str = ""


def parse_path(path: str, serving: Serving) -> Place | Group | None:
    """`path` is as it was sent, still escaped. None for what is no part of the API; NotFoundError for a kind nobody serves."""
    parts = path.split("/")[1:]
    if parts and parts[-1] == "" and len(parts) > 1:
        parts.pop()  # one slash at the end is forgiven
    steps = [_step(part) for part in parts]
    if "" in steps[1:]:
        raise NotFoundError(_NOWHERE)
    if steps[:1] == ["api"]:
        return _below(serving, "", steps[1:], core=True)
    if steps[:1] == ["apis"]:
        if len(steps) == 1:
            return Group(core=False)
        return _below(serving, steps[1], steps[2:], core=False)
    return None


def _below(serving: Serving, group: str, steps: list[str], *, core: bool) -> Place | Group:
    if not steps or len(steps) == 1:
        found = Group(core, group, steps[0] if steps else "")
        if not _is_served(serving, found):
            raise NotFoundError(_NOWHERE, kind=group)
        return found
    version, *rest = steps
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (core and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise NotFoundError(_NOWHERE)
    plural, name, subresource = (*rest, "", "")[:3]
    served = serving.at(group, version, plural)
    if namespace and not served.resource.namespaced:
        raise NotFoundError(_NOWHERE, kind=plural)
    if name and served.resource.namespaced and not namespace:
        raise NotFoundError(_NOWHERE, kind=plural)
    if subresource and subresource not in served.subresources:
        raise NotFoundError(_NOWHERE, kind=plural)
    return Place(served, version, namespace, name, subresource)


def _is_served(serving: Serving, wanted: Group) -> bool:
    if wanted.core and not wanted.version:
        return True
    return any(
        one.resource.group == wanted.group and wanted.version in ("", *one.versions) for one in serving.all
    )


def _step(part: str) -> str:
    """One segment without its escapes. InvalidError for one that could never be a name, so that none gets past `/`."""
    try:
        step = unquote(part, errors="strict") if "%" in part else part
    except UnicodeDecodeError:
        raise InvalidError(f"the path has a segment {part!r} that is not UTF-8", field="path") from None
    if faults := path_segment(step):
        raise InvalidError(f"the path has a segment {step!r} that {faults[0]}", field="path")
    return step
