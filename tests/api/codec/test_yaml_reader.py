from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec.yaml_reader import MAX_BYTES, MAX_DEPTH, read_documents
from dray.errors import InvalidError
from tests.campaign import campaign


@pytest.fixture(params=["libyaml", "pure Python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML comes with or without its C parser; both must give the same."""
    if request.param == "libyaml":
        assert hasattr(yaml, "CSafeLoader")
    else:
        monkeypatch.delattr(yaml, "CSafeLoader")


def read(text: str | bytes) -> Any:
    (document,) = read_documents(text, "f.yaml")
    return document.value


def fault(text: str | bytes) -> str:
    with pytest.raises(InvalidError) as caught:
        read_documents(text, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["0000:05:00.0", "05:00.0", "0001", "-01", "+007", "00", "007.5", "10de:0001", "1_000", "12:30:45", "0b101", "0o8",
     "2026-01-02", "2026-01-02T03:04:05Z", "yes", "no", "on", "off", "y", "N", "nULL", "tRUE", "1e", "e5", "1.2.3", "-",
     "+", ".", "..", "1-", "0xg", "--1", "+.", "inf", "nan", "NaN", "=", "1,000", "Ki", "0x", "0X1F", "-0x1"],
)  # fmt: skip
def test_stays_a_string(text: str) -> None:
    value = read(f"a: {text}\n") if text != "-" else read("[a, -]")
    assert value == ({"a": text} if text != "-" else ["a", "-"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("true", True), ("False", False),
        ("TRUE", True), ("0", 0), ("-0", 0), ("5", 5), ("+5", 5), ("-12", -12), ("0x1F", 31), ("0o17", 15),
        ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("-.5", -0.5), ("1e3", 1000.0), ("1.5E-3", 0.0015), ("0.0", 0.0),
        ("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)), ("123456789012345678901", 1.2345678901234568e20),
        ("!!str 5", "5"), ("!!int '5'", 5), ("!!float 5", 5), ("!!bool 'true'", True), ("!!null ''", None), ("! 5", "5"),
        ("'5'", "5"), ('"\\x41"', "A"), ("[a, 5]", ["a", 5]), ("!!seq []", []), ("!!map {}", {}),
    ],
)  # fmt: skip
def test_is_read_as(text: str, value: object) -> None:
    found = read(f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: the key 'a' is there twice"),
        ("x:\n  - {a: 1, 'a': 2}\n", "f.yaml:2:12: the key 'a' is there twice"),
        ("1: a\n'1': b\n", "f.yaml:2:1: the key '1' is there twice"),
        ("a: .inf", "f.yaml:1:4: .inf has no JSON form"),
        ("a: -.Inf", "f.yaml:1:4: -.Inf has no JSON form"),
        ("a: .NaN", "f.yaml:1:4: .NaN has no JSON form"),
        ("a: 1e999", "f.yaml:1:4: the number is too large"),
        ("a: 0x" + "f" * 30, "f.yaml:1:4: the number is too large"),
        ("a:\n\t- b", "f.yaml:2:1: "),
        ("a: [1,\n 2\nb: 3", "f.yaml:3:2: "),
        ("a: b: c", "f.yaml:1:5: mapping values are not allowed"),
        ("a: &x [*x]", "f.yaml:1:8: the anchor &x contains itself"),
        ("a: *x", "f.yaml:1:4: the alias *x has no anchor"),
        ("? [a]\n: b", "f.yaml:1:3: a key must be a string, not a list or map"),
        ("? {a: b}\n: b", "f.yaml:1:3: a key must be a string, not a list or map"),
        ("x: &x [a]\n? *x\n: b", "f.yaml:2:3: a key must be a string, not a list or map"),
        ("null: b", "f.yaml:1:1: a key must be a string, not null"),
        ("a: !!binary aGk=", "f.yaml:1:4: the tag tag:yaml.org,2002:binary is not supported"),
        ("a: !!timestamp 2026-01-01", "f.yaml:1:4: the tag"),
        ("a: !!set {b}", "f.yaml:1:4: the tag"),
        ("a: !mine b", "f.yaml:1:4: the tag !mine is not supported"),
        ("a: !!int b", "f.yaml:1:4: 'b' is not of the type int"),
        ("a: !!int true", "f.yaml:1:4: 'true' is not of the type int"),
        ("<<: 5", "f.yaml:1:5: << needs a map or a list of maps"),
        ("a: 1\n---\nb: 2\nb: 3", "f.yaml:4:1: "),
        ("a: é\nb: \x07", "f.yaml:2:4: the character '\\x07' is not allowed"),
        ("a: b\nc: \ud800", "f.yaml:2:4: not valid UTF-8 text"),
        (b"a: b\nc: \xff", "f.yaml:2:4: not valid UTF-8 text"),
        ("%YAML 2.0\n---\na: b", "f.yaml:1:1: "),
        ("a: 'b", "f.yaml:1:"),
        ('a: "\\ud800"', "f.yaml:1:"),
        ('a: "\\Uffffffff"', "f.yaml:1:"),
        ("a: !%E9 x", "f.yaml:1:"),
    ],
)  # fmt: skip
def test_errors_name_the_place(text: str | bytes, message: str) -> None:
    error = fault(text)
    assert error.startswith(message)
    assert "\n" not in error


def test_tabs_are_explained() -> None:
    assert "indent with spaces, not tabs" in fault("a:\n\t- b")


def test_merge_keys() -> None:
    text = (
        "base: &b {x: 1, y: {z: 1}}\nmore: &m {w: 0, x: 9}\none: {<<: *b, x: 2}\ntwo: {x: 3, <<: [*b, *m]}\n"
    )
    value = read(text)
    assert value["one"] == {"x": 2, "y": {"z": 1}}
    assert value["two"] == {"x": 3, "y": {"z": 1}, "w": 0}
    assert read("'<<': 5") == {"<<": 5}


def test_aliases_are_copies() -> None:
    value = read("a: &x {k: [1]}\nb: *x\nc: &s word\nd: *s\n*s : e\n")
    assert value["a"] == value["b"]
    assert value["a"] is not value["b"]
    assert value["a"]["k"] is not value["b"]["k"]
    assert (value["d"], value["word"]) == ("word", "e")


def test_keys_become_strings_as_with_kubectl() -> None:
    assert read("1: a\ntrue: b\n1.50: c\n0x10: d\n2.0: e\nno: f\n") == {
        "1": "a", "true": "b", "1.5": "c", "16": "d", "2": "e", "no": "f",
    }  # fmt: skip


def test_documents_and_their_lines() -> None:
    text = "# first\na: 1\n---\n---\n# nothing\n---\nb:\n  c: 2\n...\n---\nnull\n--- [x]\n"
    documents = read_documents(text)
    assert [(document.value, document.line) for document in documents] == [
        ({"a": 1}, 2),
        ({"b": {"c": 2}}, 7),
        (["x"], 12),
    ]
    inner = documents[1].value["b"]
    assert documents[1].lines[id(inner)] == 8


@pytest.mark.parametrize("text", ["", "\n", "# only\n", "---\n", "---\n---\n", "\ufeff", "~"])
def test_nothing_in_it(text: str) -> None:
    assert read_documents(text) == []


def test_encodings_and_line_ends() -> None:
    text = "a: é\r\nb: |\r\n  x\r\n  y\r\n"
    value = {"a": "é", "b": "x\ny\n"}
    assert read(text) == read("\ufeff" + text) == read(text.encode()) == value
    assert read(text.encode("utf-8-sig")) == read(text.encode("utf-16")) == value


def test_json_is_yaml() -> None:
    value = {"a": [1, -2.5, True, None, 'x\n\t\\"/é'], "b": {"c": {}}}
    assert read(json.dumps(value)) == read(json.dumps(value, indent=1)) == value


def test_depth_is_limited() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert str(read(deepest)) == deepest
    for text in (
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    ):
        assert f"nested more than {MAX_DEPTH} deep" in fault(text)


def test_depth_counts_aliases() -> None:
    half = "[" * 60 + "]" * 60
    assert f"nested more than {MAX_DEPTH} deep" in fault(f"a: &x {half}\nb: {'[' * 60}*x{']' * 60}")


def test_a_billion_laughs() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "the aliases stand for more than 1000000 values" in fault("\n".join(lines))


def test_a_merge_bomb_is_bounded_too() -> None:
    lines = ["a0: &a0 {k0: x, k1: x, k2: x, k3: x}"]
    lines += [f"a{n}: &a{n} {{p: *a{n - 1}, q: *a{n - 1}, r: {{<<: *a{n - 1}}}}}" for n in range(1, 40)]
    assert "the aliases stand for more than 1000000 values" in fault("\n".join(lines))


def test_size_is_limited() -> None:
    assert fault("#" * (MAX_BYTES + 1)) == "f.yaml: larger than 16 MiB"


SEEDS = [
    "a: &x [1, {b: *x}]\n",
    "<<: {a: b}\n",
    "--- !!str\n? - b\n",
    '{"a": [1, "\\u00e9"]}',
    "a: |\n  b\n...\n",
    "%TAG ! x\n",
]


@settings(max_examples=campaign(150, 60_000))
@given(st.data())
def test_any_input_is_read_or_invalid(data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS))
    cut = data.draw(st.integers(0, len(seed)))
    junk = data.draw(
        st.one_of(st.text(max_size=20), st.text(alphabet="-:?[]{},#&*!|>'\"%@` \n\tab1", max_size=20))
    )
    raw = (seed[:cut] + junk + seed[cut:]).encode(errors="surrogatepass")
    raw += data.draw(st.binary(max_size=4))
    try:
        documents = read_documents(raw)
    except InvalidError as error:
        assert str(error).startswith("<input>:")
        return
    for document in documents:
        assert json.loads(json.dumps(document.value)) == document.value
