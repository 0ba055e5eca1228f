from __future__ import annotations

import pytest

from dray.cdi.names import (
    QualifiedName,
    annotated_devices,
    annotation,
    device_faults,
    kind_faults,
    parse_qualified,
    split_kind,
)
from dray.errors import InvalidError


@pytest.mark.parametrize("kind", ["a/b", "example.com/gpu", "v.x_y-z/c.d", "V9/C9"])
def test_kinds(kind: str) -> None:
    assert kind_faults(kind) == []
    assert "/".join(split_kind(kind)) == kind


@pytest.mark.parametrize(
    "kind", ["", "a", "/b", "a/", "9a/b", "a/9", "a-/b", "a/b-", "a b/c", "a/b/c", "ä/b", "a/b\n"]
)
def test_what_is_no_kind(kind: str) -> None:
    assert kind_faults(kind)


def test_devices() -> None:
    assert not any(map(device_faults, ["a", "0", "gpu-0", "0000:05:00.0", "a_b"]))
    assert all(map(device_faults, ["", "-a", "a-", ":a", "a b", "a/b", "a=b", "ä", "a\n"]))


def test_qualified_names() -> None:
    assert parse_qualified("example.com/gpu=0") == QualifiedName("example.com", "gpu", "0")
    assert str(QualifiedName("example.com", "gpu", "0")) == "example.com/gpu=0"
    for text in ("", "gpu", "/dev/x", "/a/b=c", "a=b", "a/b", "a/b=", "=c", "a/b=c=d", "a/b=-"):
        with pytest.raises(InvalidError, match="is not a CDI device"):
            parse_qualified(text)


def test_annotations_for_runtimes() -> None:
    key, value = annotation("vendor.gpu", "a/1", ["v/c=1", "v/c=2"])
    assert (key, value) == ("cdi.k8s.io/vendor.gpu_a_1", "v/c=1,v/c=2")
    assert annotated_devices({key: value, "cdi.k8s.io/a": "v/c=0,v/c=1", "x": "y"}) == (
        "v/c=0",
        "v/c=1",
        "v/c=2",
    )
    for plugin, device in (("", "x"), ("x", ""), ("x" * 60, "abc"), ("-x", "y"), ("x", "y!")):
        with pytest.raises(InvalidError, match="annotation"):
            annotation(plugin, device, [])
    with pytest.raises(InvalidError):
        annotated_devices({"cdi.k8s.io/a": "v/c=0,"})
