from __future__ import annotations

import pytest

from dray.cel.faults import CelError
from dray.cel.library import bindings, kubernetes
from tests.cel.library.answers import CASES, program


def test_every_library_has_cases() -> None:
    names = [library.name for library in kubernetes.LIBRARIES]
    assert len(names) == len(set(names))
    about = {path.stem for path in CASES.glob("*.jsonl")}
    assert about >= {
        "strings",
        "formatting",
        "lists",
        "kubernetes_lists",
        "sets",
        "optionals",
        "comprehensions",
        "regex",
    }
    assert about >= {"urls", "ips", "cidrs", "quantity", "semver", "formats"}


def test_ids_are_unique_over_all_libraries() -> None:
    ids = [
        overload.id for library in (*kubernetes.LIBRARIES, bindings.LIBRARY) for overload in library.overloads
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "text",
    [
        "math.greatest(1, 2)",
        "base64.encode(b'a')",
        "'abc'.reverse()",
        "x.includes(1)",
        "quantity('1').sign()",
    ],
)
def test_what_kubernetes_does_not_have(text: str) -> None:
    with pytest.raises(CelError):
        program(text)


@pytest.mark.parametrize(
    "text", ["cel.bind(a, 1, a) == 1", "[1].first().value() == 1", "type(ip('::1')) == net.IP"]
)
def test_what_it_has(text: str) -> None:
    assert program(text).evaluate({"x": 1}) is True
