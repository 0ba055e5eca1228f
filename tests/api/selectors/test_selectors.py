"""The types as they stand in documents."""

from __future__ import annotations

from dray.api.codec import decode, encode
from dray.api.selectors import LabelSelector, NodeSelector


def test_names_on_the_wire() -> None:
    text = (
        b'{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["x"]}],'
        b'"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}'
    )
    assert encode(decode(text, NodeSelector)) == text
    text = b'{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"Exists"}]}'
    assert encode(decode(text, LabelSelector)) == text
    assert encode(LabelSelector()) == b"{}"
