from __future__ import annotations

import pytest

from dray.cdi.document import Mapping, Scalar, Sequence, read_document
from dray.errors import InvalidError


def root(text: str) -> Mapping:
    found = read_document(text, "f").root
    assert isinstance(found, Mapping)
    return found


def test_values_keep_their_text_and_line() -> None:
    found = root('a: 0660\nb: "0660"\nc:\n- x\n')
    assert found.entries["a"] == Scalar(1, "0660", True)
    assert found.entries["b"] == Scalar(2, "0660", False)
    assert found.entries["c"] == Sequence(4, [Scalar(4, "x", True)])
    assert found.key_lines == {"a": 1, "b": 2, "c": 3}


def test_json_is_read_with_lines_too() -> None:
    found = root('{\n\t"a": 1,\n\t"b": [true]\n}')
    assert found.key_lines == {"a": 2, "b": 3}


def test_aliases_and_merges() -> None:
    found = root("a: &x {p: 1, q: 2}\nb: *x\nc:\n  <<: *x\n  q: 3\nd: {<<: [*x, {q: 9, r: 4}]}\n")
    merged, both = found.entries["c"], found.entries["d"]
    assert found.entries["a"] is found.entries["b"]
    assert isinstance(merged, Mapping) and isinstance(both, Mapping)
    assert {key: one.text for key, one in merged.entries.items() if isinstance(one, Scalar)} == {
        "q": "3",
        "p": "1",
    }
    assert {key: one.text for key, one in both.entries.items() if isinstance(one, Scalar)} == {
        "p": "1",
        "q": "2",
        "r": "4",
    }


def test_only_the_first_document_counts() -> None:
    assert read_document("a: 1\n", "f").more_at == 0
    assert read_document("a: 1\n...\n", "f").more_at == 0
    assert read_document("a: 1\n---\nb: 2\n", "f").more_at == 2
    assert read_document("a: 1\n---\n{{{", "f").more_at > 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "f: there is no CDI spec in it"),
        ("# nothing\n", "f: there is no CDI spec in it"),
        ("a: 1\na: 2\n", "f:2:1: the key 'a' is there twice"),
        ("a: *x\n", "f:1:4: *x is not defined before"),
        ("a: &x [*x]\n", "f:1:8: *x is inside itself"),
        ("? [a]\n: 1\n", "f:1:3: a key must be a string, not a list or map"),
        ("a: !foo b\n", "f:1:4: the tag !foo is not supported: only plain JSON types are"),
        (
            "a: !!set {b}\n",
            "f:1:4: the tag tag:yaml.org,2002:set is not supported: only plain JSON types are",
        ),
        ("<<: 3\n", "f:1:5: << needs a map or a list of maps"),
        ("a: b\nc: \x01\n", "f:2:4: control characters are not allowed"),
        ("{", "f:2:1: did not find expected node content"),
        ("a: " + "[" * 200, "f:1:103: nested more than 100 deep"),
    ],
)
def test_faults_have_a_place(text: str, fault: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read_document(text, "f")
    # The two parsers that may be installed count the end of a file differently.
    assert str(refused.value).replace("f:1:2:", "f:2:1:") == fault


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InvalidError, match=r"f:1:4: not valid UTF-8 text"):
        read_document(b"a: \xff", "f")
