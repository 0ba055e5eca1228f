from __future__ import annotations

import pytest

from dray.apiserver.patching.shape_table import FieldText, long_name, parse_field, shape_table, short_name


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("string", FieldText("string")),
        ("integer:int32!=", FieldText("integer", "int32", required=True, default="")),
        ('string="ReadWrite"; enum None|ReadWrite', FieldText("string", default='"ReadWrite"', enum=("None", "ReadWrite"))),
        ("{}string; map atomic", FieldText("string", is_map=True, map_type="atomic")),
        ("[]string(|IPv4|IPv6); list atomic", FieldText("string", is_list=True, words=("", "IPv4", "IPv6"), list_type="atomic")),
        (
            "[]core.v1.ContainerPort; patch merge containerPort; list map containerPort protocol",
            FieldText(
                "core.v1.ContainerPort",
                is_list=True,
                strategies="merge",
                merge_key="containerPort",
                list_type="map",
                list_keys=("containerPort", "protocol"),
            ),
        ),
        ("apps.v1.DeploymentStrategy=; patch retainKeys", FieldText("apps.v1.DeploymentStrategy", default="", strategies="retainKeys")),
    ],
)  # fmt: skip
def test_a_field_is_read_from_its_text(text: str, field: FieldText) -> None:
    assert parse_field(text) == field


def test_every_field_of_the_file_can_be_read_and_leads_to_a_shape() -> None:
    table = shape_table()
    for shape in table.shapes:
        for text in table.texts(shape).values():
            field = parse_field(text)
            assert not field.is_shape or field.type in table.shapes
    assert set(table.kinds.values()) <= table.shapes.keys()
    assert set(table.traits) <= table.shapes.keys()


def test_only_structs_have_fields() -> None:
    table = shape_table()
    assert table.has_fields("core.v1.Pod")
    assert not table.has_fields("meta.v1.Time")
    assert not table.has_fields("nothing")
    assert table.texts("nothing") == {}


@pytest.mark.parametrize(
    "shape", ["core.v1.Pod", "meta.v1.ObjectMeta", "api.resource.Quantity", "apiextensions.v1.JSON"]
)
def test_names_are_shortened_and_back(shape: str) -> None:
    assert short_name(long_name(shape)) == shape
    assert long_name(shape).startswith("io.k8s.")
