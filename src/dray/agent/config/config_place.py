"""What `--config` and `--additions` may say: a file, a KubeVirt object or a ConfigMap. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.api import names
from dray.api.codec import load_values
from dray.api.core import ConfigMap
from dray.api.kinds import Resource
from dray.api.kubevirt.types import API_GROUP, KIND
from dray.api.meta import Model, ObjectMeta
from dray.client.requests import Selection
from dray.errors import InvalidError

_FORMS: Final = (
    "a file, kubevirt:NAMESPACE/NAME, kubevirt: for the only one, or configmap:NAMESPACE/NAME[/KEY]"
)


class KubeVirtObject(Model, frozen=True, kw_only=True):
    """A KubeVirt object whose settings are not typed yet: what is wrong in them is to be told by name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None


KUBEVIRTS: Final = Resource(API_GROUP, "v1", "kubevirts", KIND, True, KubeVirtObject)


@dataclass(frozen=True, slots=True)
class KubeVirtPlace:
    """A KubeVirt object; both empty: the only one there is."""

    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"kubevirt:{self.namespace}/{self.name}" if self.name else "kubevirt"


@dataclass(frozen=True, slots=True)
class ConfigMapPlace:
    """One text of a ConfigMap; without a key the only one in it."""

    namespace: str
    name: str
    key: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (f"configmap:{self.namespace}", self.name, self.key)))


Place = Path | KubeVirtPlace | ConfigMapPlace


def parse_place(text: str, flag: str) -> Place:
    """A file whose name starts like one of the others is written with a directory: `./kubevirt:x`."""
    kind, separator, rest = text.partition(":")
    if not text:
        raise InvalidError(f"{flag}: is empty; give {_FORMS}", field=flag)
    if not separator or kind not in ("kubevirt", "configmap"):
        return Path(text)
    parts = rest.split("/") if rest else []
    if kind == "kubevirt" and len(parts) in (0, 2):
        return KubeVirtPlace(*_checked(parts, text, flag))
    if kind == "configmap" and len(parts) in (2, 3):
        key = parts[2] if len(parts) == 3 else ""
        if len(parts) == 3 and names.config_map_key(key):
            raise InvalidError(f"{flag}: {text!r}: the key {key!r} is no key of a ConfigMap", field=flag)
        namespace, name = _checked(parts[:2], text, flag)
        return ConfigMapPlace(namespace, name, key)
    raise InvalidError(f"{flag}: {text!r} must be {_FORMS}", field=flag)


def parse_additions_place(text: str) -> Path | ConfigMapPlace | None:
    """What `--additions` says; None where it says nothing."""
    place = parse_place(text, "--additions") if text else None
    if isinstance(place, KubeVirtPlace):
        raise InvalidError(f"--additions: {text!r} must be a file or a ConfigMap", field="--additions")
    return place


def _checked(parts: list[str], text: str, flag: str) -> list[str]:
    for part, rule in zip(parts, (names.dns_label, names.dns_subdomain), strict=False):
        if faults := rule(part):
            raise InvalidError(f"{flag}: {text!r}: {part!r}: {faults[0]}", field=flag)
    return parts


def selection(place: KubeVirtPlace | ConfigMapPlace) -> Selection:
    """What to list and watch: one object, so that a right to that one is enough."""
    if not place.name:
        return Selection()
    return Selection(place.namespace, fields=f"metadata.name={place.name}")


def text_of(place: ConfigMapPlace, found: ConfigMap) -> str:
    """The text that is meant; InvalidError where it is not there, or it is not clear which."""
    keys = sorted(found.data)
    key = place.key or (keys[0] if len(keys) == 1 else "")
    if key not in found.data:
        listed = ", ".join(keys) or "none"
        problem = f"has no key {key!r}" if key else "say which key is meant, as configmap:NAMESPACE/NAME/KEY"
        raise InvalidError(f"{place}: {problem}; its keys: {listed}", field=str(place))
    return found.data[key]


def parse_additions(text: str, source: str) -> Any:
    """What stands under `dray:` in a document that has nothing else."""
    documents = load_values(text, source)
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, dict) or value.keys() != {"dray"}:
        raise InvalidError(f"{source}: must be one map with the key `dray` and no other", field=source)
    return value["dray"]


def object_text(found: KubeVirtObject, additions: Any) -> str:
    """The object with nothing but what counts here, and Dray's part beside it; None: there is none."""
    spec = found.spec
    if isinstance(spec, dict):
        spec = {"configuration": spec.get("configuration")}
    meta = {"namespace": found.metadata.namespace, "name": found.metadata.name}
    whole = {"apiVersion": KUBEVIRTS.api_version, "kind": KIND, "metadata": meta, "spec": spec}
    if additions is not None:
        whole["dray"] = additions
    return msgspec.json.encode(whole, order="deterministic").decode()
