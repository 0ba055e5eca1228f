"""What Go's corpus (test_values) does not cover: the rules of the DRA API, resource names, generated names."""

from __future__ import annotations

import pytest

from dray.api import names


def test_driver_names() -> None:
    for good in ("gpu.example.com", "GPU.Example.com", "a", "x" * 63):
        assert names.driver_name(good) == []
    assert names.driver_name("") == ["must be non-empty"]
    assert names.driver_name("x" * 64) == ["may not be more than 63 bytes"]
    assert "lowercase RFC 1123 subdomain" in names.driver_name("gpu_example")[0]


def test_pool_names() -> None:
    for good in ("node-1", "a/b.c/d", "x" * 253):
        assert names.pool_name(good) == []
    assert names.pool_name("") == ["must be non-empty"]
    assert names.pool_name("x" * 254) == [names.too_long(253), "must be no more than 253 characters"]
    assert len(names.pool_name("a//B")) == 2


def test_qualified_names() -> None:
    for good in ("model", "_x1", "gpu.example.com/model", "a/b/c", "a/b/c d"):
        assert names.qualified_name(good) == []
    assert names.qualified_name("/x") == ["the domain must not be empty"]
    assert names.qualified_name("a/") == ["the name must not be empty"]
    assert names.qualified_name("x" * 33) == [names.too_long(32)]
    assert names.qualified_name("a/" + "x" * 33) == [names.too_long(32)]
    assert names.qualified_name("d" * 64 + "/x") == [names.too_long(63)]
    assert "C identifier" in names.qualified_name("1x")[0]
    assert "C identifier" in names.qualified_name("")[0]
    assert names.fully_qualified_name("a/b") == []
    assert names.fully_qualified_name("b") == [
        "a fully qualified name must be a domain and a name separated by a slash"
    ]


UUID = "123e4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (UUID, None),
        (UUID.upper(), "uid must be in RFC 4122 normalized form"),
        (UUID.replace("-", ""), "uid must be in RFC 4122 normalized form"),
        (f"{{{UUID}}}", "uid must be in RFC 4122 normalized form"),
        (f"urn:uuid:{UUID}", "uid must be in RFC 4122 normalized form"),
        (f"URN:UUID:{UUID}", "uid must be in RFC 4122 normalized form"),
        ("", "error validating uid: invalid UUID length: 0"),
        ("abc", "error validating uid: invalid UUID length: 3"),
        (UUID[:-1] + "g", "error validating uid: invalid UUID format"),
        (UUID.replace("-", "_"), "error validating uid: invalid UUID format"),
        ("z" * 32, "error validating uid: invalid UUID format"),
        (f"[{UUID}]", "error validating uid: invalid bracketed UUID format"),
        (f"urn:uuix:{UUID}", "error validating uid: invalid urn prefix"),
        (UUID + "\n", "error validating uid: invalid UUID length: 37"),
    ],
)
def test_share_ids(value: str, fault: str | None) -> None:
    faults = names.share_id(value)
    assert faults == [] if fault is None else len(faults) == 1 and faults[0].startswith(fault)


@pytest.mark.parametrize(
    ("uid", "is_safe"),
    [
        (UUID, True),
        ("A1", True),
        ("u", True),
        ("u" * 128, True),
        ("u" * 129, False),
        ("", False),
        ("..", False),
        ("a.b", False),
        ("a/b", False),
        ("../../etc", False),
        ("a_b", False),
        ("a\0b", False),
        ("a\n", False),
        ("-a", False),
        ("a-", False),
    ],
)
def test_uids_in_names_of_files(uid: str, is_safe: bool) -> None:
    assert names.is_uid_for_files(uid) is is_safe


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "example.com/a_b.c", "devices.kubevirt.io/kvm", "a/b"])
def test_device_plugin_resource_names(name: str) -> None:
    assert names.extended_resource_name(name) == []
    assert names.is_extended_resource_name(name)
    assert not names.is_native_resource(name)


@pytest.mark.parametrize(
    "name",
    ["", "cpu", "gpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.nvidia.com/gpu", "nvidia.com/", "/gpu",
     "nvidia.com/g pu", "nvidia.com/a/b", "NVIDIA.com/gpu", "nvidia.com/" + "g" * 64, "x" * 245 + "/g"],
)  # fmt: skip
def test_refused_resource_names(name: str) -> None:
    assert names.extended_resource_name(name) != []
    assert not names.is_extended_resource_name(name)


def test_native_resources() -> None:
    assert all(
        map(names.is_native_resource, ["cpu", "hugepages-2Mi", "kubernetes.io/x", "a.kubernetes.io/x"])
    )


def test_a_prefix_may_end_in_a_dash() -> None:
    assert names.as_prefix(names.dns_label, "my-") == []
    assert names.as_prefix(names.dns_label, "my--") == []
    assert names.dns_label("my-") != []
    assert names.as_prefix(names.dns_label, "-") != []
    assert names.as_prefix(names.dns_label, "-x-") != []


def test_generated_names_are_short_enough() -> None:
    assert names.generate("claim-", "x2bcd") == "claim-x2bcd"
    assert names.generate("c" * 80, "x2bcd") == "c" * 58 + "x2bcd"
    assert names.dns_label(names.generate("c" * 80, "x2bcd")) == []
    assert not set(names.SUFFIX_ALPHABET) & set("aeiou013")


def test_annotations_are_limited_together() -> None:
    assert names.annotations_size({"a": "x" * (256 * 1024 - 1)}) == []
    assert names.annotations_size({"a": "x" * (256 * 1024)}) == [names.too_long(256 * 1024)]
    assert names.annotations_size({"a": "é" * (128 * 1024)}) == [names.too_long(256 * 1024)]


LONG = 300_000


def test_hostile_names_are_judged_fast() -> None:
    """So long that a rule that goes back and forth in them would not come to an end."""
    for rule in (
        names.dns_label,
        names.dns_subdomain,
        names.label_key,
        names.label_value,
        names.c_identifier,
    ):
        for text in ("a-" * LONG, "a" * LONG + "!", "-" * LONG, "a." * LONG, "a/" * LONG):
            assert rule(text)
