from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.custom.columns import found_at

DOCUMENT: dict[str, Any] = {
    "metadata": {"annotations": {"example.com/size": "big"}},
    "spec": {"list": [{"name": "a"}, {"name": "b"}], "on": False},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".spec.on", False),
        (".spec.list[0].name", "a"),
        (".spec.list[-1].name", "b"),
        (".spec.list[5].name", None),
        (".spec.list[*].name", "a"),
        ('.status.conditions[?(@.type=="Old")].status', "False"),
        (".status.conditions[?(@.type == 'Ready')].status", "True"),
        ('.status.conditions[?(@.type=="None")].status', None),
        (r".metadata.annotations.example\.com/size", "big"),
        (".metadata.annotations['example.com/size']", "big"),
        (".spec.nothing.at.all", None),
        (".spec.on.below", None),
        ("nonsense", None),
        (".spec.list[" + "9" * 5000 + "]", None),
        (".spec.list[" * 1000, None),
        (".spec[?(@.a>1)]", None),
    ],
)
def test_paths(path: str, value: Any) -> None:
    assert found_at(path, DOCUMENT) == value
