from __future__ import annotations

from pathlib import Path

import pytest

from dray.agent.config.config_place import (
    ConfigMapPlace,
    KubeVirtObject,
    KubeVirtPlace,
    Place,
    object_text,
    parse_additions,
    parse_additions_place,
    parse_place,
    selection,
    text_of,
)
from dray.api.core import ConfigMap
from dray.api.meta import ObjectMeta
from dray.client.requests import Selection
from dray.errors import InvalidError

GOOD: list[tuple[str, Place, str]] = [
    ("/etc/dray/agent.yaml", Path("/etc/dray/agent.yaml"), "/etc/dray/agent.yaml"),
    ("./kubevirt:x", Path("kubevirt:x"), "kubevirt:x"),
    ("c:\\agent", Path("c:\\agent"), "c:\\agent"),
    ("kubevirt", Path("kubevirt"), "kubevirt"),
    ("kubevirt:", KubeVirtPlace(), "kubevirt"),
    ("kubevirt:kubevirt/kv", KubeVirtPlace("kubevirt", "kv"), "kubevirt:kubevirt/kv"),
    ("configmap:a/b", ConfigMapPlace("a", "b"), "configmap:a/b"),
    ("configmap:a/b/agent.yaml", ConfigMapPlace("a", "b", "agent.yaml"), "configmap:a/b/agent.yaml"),
]
BAD = ["", "kubevirt:x", "kubevirt:a/b/c", "kubevirt:/", "kubevirt:A/b", "configmap:", "configmap:a",
       "configmap:a/", "configmap:a/b/", "configmap:a/b/c/d", "configmap:../b", "configmap:a/b/.."]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "shown"), GOOD, ids=[text for text, _, _ in GOOD])
def test_places(text: str, place: Place, shown: str) -> None:
    assert parse_place(text, "--config") == place
    assert str(place) == shown


@pytest.mark.parametrize("text", BAD)
def test_no_places(text: str) -> None:
    with pytest.raises(InvalidError, match="--config: "):
        parse_place(text, "--config")


def test_where_additions_may_be() -> None:
    assert parse_additions_place("") is None
    assert parse_additions_place("configmap:a/b") == ConfigMapPlace("a", "b")
    with pytest.raises(InvalidError, match="--additions: 'kubevirt:' must be a file or a ConfigMap"):
        parse_additions_place("kubevirt:")


def test_only_what_is_meant_is_watched() -> None:
    assert selection(ConfigMapPlace("a", "b")) == Selection("a", fields="metadata.name=b")
    assert selection(KubeVirtPlace()) == Selection()


def test_the_text_of_a_config_map() -> None:
    two = ConfigMap(metadata=ObjectMeta(name="b"), data={"x": "1", "y": "2"})
    assert text_of(ConfigMapPlace("a", "b", "y"), two) == "2"
    with pytest.raises(InvalidError, match="has no key 'z'; its keys: x, y"):
        text_of(ConfigMapPlace("a", "b", "z"), two)
    with pytest.raises(InvalidError, match="say which key"):
        text_of(ConfigMapPlace("a", "b"), two)
    with pytest.raises(InvalidError, match="its keys: none"):
        text_of(ConfigMapPlace("a", "b"), ConfigMap())


def test_what_does_not_count_is_left_out() -> None:
    meta = ObjectMeta(namespace="n", name="k", resource_version="7")
    found = KubeVirtObject(metadata=meta, spec={"configuration": {"x": 1}, "imageTag": "v1"})
    assert object_text(found, {"role": "replace"}) == (
        '{"apiVersion":"kubevirt.io/v1","dray":{"role":"replace"},"kind":"KubeVirt",'
        '"metadata":{"name":"k","namespace":"n"},"spec":{"configuration":{"x":1}}}'
    )
    assert '"spec":7}' in object_text(KubeVirtObject(spec=7), None)


@pytest.mark.parametrize("text", ["", "[]", "dray: {}\nx: 1\n", "dray: {}\n---\ndray: {}\n"])
def test_additions_have_one_key(text: str) -> None:
    with pytest.raises(InvalidError, match=r"a\.yaml: must be one map"):
        parse_additions(text, "a.yaml")
    assert parse_additions("dray: {domain: x.y}", "a.yaml") == {"domain": "x.y"}
