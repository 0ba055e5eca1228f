"""What people call kinds."""

from __future__ import annotations

import pytest

from dray.api.kinds import DEVICE_CLASSES, PODS
from dray.cli.kind_names import DEVICES, Kind, nearest, no_kind, own_kind, own_words


@pytest.mark.parametrize(
    ("word", "view"),
    [
        ("po", "pods"),
        ("Pods", "pods"),
        ("no", "nodes"),
        ("rct", "claimtemplates"),
        ("template", "claimtemplates"),
        ("dc", "classes"),
        ("deviceclass.resource.k8s.io", "classes"),
        ("ev", "events"),
        ("ns", "namespaces"),
        ("dev", "devices"),
        ("plugin", "plugins"),
    ],
)
def test_short_and_long_names(word: str, view: str) -> None:
    found = own_kind(word)
    assert found is not None and found.view == view


def test_others_are_the_servers() -> None:
    assert own_kind("deployments") is None
    assert Kind("pods", PODS).typed_name == "pod"
    assert Kind("classes", DEVICE_CLASSES).typed_name == "deviceclass.resource.k8s.io"
    assert (Kind("classes", DEVICE_CLASSES).singular, Kind(DEVICES).singular) == ("class", "device")
    assert not Kind(DEVICES).namespaced and Kind("pods", PODS).namespaced


def test_what_was_probably_meant() -> None:
    assert nearest("clams", own_words()) == "claims"
    assert nearest("xyz", own_words()) == ""
    assert "did you mean claims?" in str(no_kind("clams"))
    assert "some are claims, claimtemplates, classes" in str(no_kind("xyz"))
