from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec import load_documents, load_values
from dray.errors import InvalidError
from tests.campaign import campaign


def fault(text: str | bytes) -> str:
    with pytest.raises(InvalidError) as caught:
        load_documents(text, "f")
    return str(caught.value)


def test_every_manifest_knows_its_line() -> None:
    text = "# pods\nkind: Pod\nmetadata: {name: a}\n---\n\n---\nkind: Pod\nmetadata:\n  name: b\n"
    assert [(m.name, m.source) for m in load_documents(text, "f.yaml")] == [
        ("a", "f.yaml:2"),
        ("b", "f.yaml:7"),
    ]


def test_lists_are_taken_apart() -> None:
    text = """\
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata: {name: a}
- apiVersion: v1
  kind: PodList
  items:
  - metadata: {name: b}
  - metadata: {name: c}
    kind: Special
- kind: List
  items: []
"""
    found = [(m.api_version, m.kind, m.name, m.source) for m in load_documents(text, "f")]
    assert found == [("", "Pod", "a", "f:4"), ("v1", "Pod", "b", "f:9"), ("v1", "Special", "c", "f:10")]
    assert load_documents("kind: DeviceList\nspec: {}")[0].kind == "DeviceList"
    as_json = json.dumps({"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]})
    assert [(m.kind, m.source) for m in load_documents(as_json, "f")] == [
        ("A", "f:1: items[0]"),
        ("B", "f:1: items[1]"),
    ]


def test_json_documents() -> None:
    for text in (
        '{"kind":"A"}{"kind":"B"}',
        '{"kind":"A"}\n\n\t{"kind":"B"}\n',
        '\ufeff {"kind":"A"} {"kind":"B"}',
    ):
        assert [m.kind for m in load_documents(text)] == ["A", "B"]
    assert [m.source for m in load_documents('\n{"kind":\n"A"}\n\n{"kind":"B"}', "f")] == ["f:2", "f:5"]
    assert load_documents('{"a":"\\ud83d\\ude00\\/"}')[0].raw == {"a": "😀/"}
    assert load_documents(b"") == []
    assert load_values("[1]\n[2]")[1].value == [2]


def test_yaml_that_starts_like_json() -> None:
    assert [m.kind for m in load_documents('{"kind":"A"}\n---\n{"kind":"B"}\n# end')] == ["A", "B"]
    assert load_values("[a, 0001]")[0].value == ["a", "0001"]
    assert load_values('{"a":123456789012345678901}')[0].value == {"a": 1.2345678901234568e20}
    assert load_documents("{kind: A}\n---\n{kind: B, 'x': [0001]}")[1].raw == {"kind": "B", "x": ["0001"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,\n "b":2,\n "a":3}', "f:3:2: the key 'a' is there twice"),
        ('{"x":[{"a":{"b":1},"c":"a","a":"\\\\\\"a"}]}', "f:1:28: the key 'a' is there twice"),
        ('{"a":1}\n{"b":1,"b":2}', "f:2:8: the key 'b' is there twice"),
        ('{"\\u0061":1,"a":2}', "f:1:13: the key 'a' is there twice"),
        ('{"NaN":1,\n"a":NaN}', "f:2:5: the number NaN has no JSON form"),
        ('{"a":b}', "f:1:6: Expecting value"),
        ('{"a":1e999}', "f:1:6: the number 1e999 has no JSON form or is too large"),
        ('{"a":' + "9" * 5000 + "}", "f:1:6: the number 9999"),
        ('{"a":"\\ud800"}', "f:1:"),
        ('{"a":1,\n"b":\n}', "f:3:1: "),
        ('{"a":1,\n"b" 2}', "f:2:"),
        ("[" * 100_000, "f:1:"),
        ('{"a":' * 101 + "1" + "}" * 101, "f:1:1: nested more than 100 deep"),
        ("[1]", "f:1: expected an object with apiVersion and kind, found a list"),
        ("a: 1\n---\nword", "f:3: expected an object with apiVersion and kind, found a string"),
        (
            "kind: List\nitems: [5]",
            "f:1: items[0]: expected an object with apiVersion and kind, found a number",
        ),
        (b"\xff\xfe\x00", "f:1:3: not valid UTF-8 text"),
        (b'{"a":"\xff"}', "f:1:7: not valid UTF-8 text"),
    ],
)
def test_errors_name_the_place(text: str | bytes, message: str) -> None:
    assert fault(text).startswith(message)


SEEDS = [
    '{"kind":"List","items":[{"kind":"A","metadata":{"name":"a"}}]}\n{"kind":"B"}',
    "kind: A\nmetadata: {name: a}\n---\n- x\n",
    '[{"a":[true,null,1.5e3,"\\u00e9"]}]',
]


@settings(max_examples=campaign(200, 100_000))
@given(st.data())
def test_any_input_loads_or_is_invalid(data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS)).encode()
    cut = data.draw(st.integers(0, len(seed)))
    junk = data.draw(
        st.one_of(
            st.binary(max_size=12), st.text(alphabet='{}[]",:\\0eE-nutf \n', max_size=12).map(str.encode)
        )
    )
    tail = data.draw(st.booleans())
    try:
        found = load_documents(seed[:cut] + junk + (seed[cut:] if tail else b""))
    except InvalidError as error:
        assert str(error).startswith("<input>:")
        return
    for manifest in found:
        assert json.loads(manifest.encode()) == manifest.raw
