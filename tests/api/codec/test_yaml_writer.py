from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec.yaml_reader import read_documents
from dray.api.codec.yaml_writer import dump, dump_all
from dray.errors import InvalidError
from tests.campaign import campaign

AMBIGUOUS = [
    "", " ", "yes", "No", "ON", "off", "y", "N", "true", "False", "null", "~", "Null", "1", "-1", "+1", "0001", "0x1F",
    "0o17", "017", "1e3", "1.5", ".5", "5.", "1_000", "12:30", "12:30:45", "0000:05:00.0", "2026-01-02", ".inf", ".NaN",
    "=", "<<", "- a", "-", "?", ": ", "a: b", "a:", "a #b", "#a", "&a", "*a", "!a", "|", ">", "'a'", '"a"', "%a", "@a",
    "`a", "[a]", "{a}", "a,b", " a", "a ", "\ta", "a\t", "a\nb", "a\n", "\n", "a\n\n", "a\n b\n", " a\nb", "a \nb\n",
    "a\r\nb", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "é", "😀", "---", "...", "--- a", "\\", "/dev/kvm",
]  # fmt: skip


def test_readers_of_both_versions_agree() -> None:
    value = {"list": AMBIGUOUS, "map": {text: text for text in AMBIGUOUS}}
    text = dump(value)
    assert read_documents(text)[0].value == value
    assert yaml.safe_load(text) == value
    assert yaml.load(text, yaml.CSafeLoader) == value


def test_looks_like_what_people_write() -> None:
    value = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "labels": {}, "finalizers": []},
        "data": {"run.sh": "#!/bin/sh\n\nexec true\n", "port": "8080", "path": "/dev/vfio/1", "on": "yes"},
        "list": [{"name": "a", "values": [1, True, None, 1.5]}, ["b", ["c"]], []],
    }
    assert (
        dump(value)
        == """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: x
  labels: {}
  finalizers: []
data:
  run.sh: |
    #!/bin/sh

    exec true
  port: "8080"
  path: /dev/vfio/1
  "on": "yes"
list:
- name: a
  values:
  - 1
  - true
  - null
  - 1.5
- - b
  - - c
- []
"""
    )


def test_several_documents() -> None:
    values: list[Any] = [{"a": 1}, ["b"], "c", {}, {"d": "x\ny\n\n"}, {"e": 1}]
    assert [document.value for document in read_documents(dump_all(values))] == values


def test_keys_too_long_for_one_line() -> None:
    value = {"k" * 5000: {"a": ["b"]}, "x": [{"é" * 2000: 1}]}
    assert read_documents(dump(value))[0].value == value == yaml.safe_load(dump(value))


@pytest.mark.parametrize(
    "value", [float("nan"), {"a": float("-inf")}, {1: 2}, {"a": object()}, ["\ud800"], {"\udfff": 1}, b"x"]
)
def test_what_json_cannot_hold(value: object) -> None:
    with pytest.raises(InvalidError, match="cannot write YAML"):
        dump(value)


def test_depth() -> None:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidError, match="nested too deeply"):
        dump(value)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.text(alphabet="ab \n\t:#-'\"01.e", max_size=12)
    | st.sampled_from(AMBIGUOUS)
)
keys = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(AMBIGUOUS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=campaign(150, 20_000))
@given(values)
def test_reads_back_the_same(value: Any) -> None:
    text = dump(value)
    found = [document.value for document in read_documents(text)]
    assert json.dumps(found) == json.dumps([] if value is None else [value])
    assert json.dumps(yaml.load(text, yaml.CSafeLoader)) == json.dumps(value)
