from __future__ import annotations

import json

import pytest

from dray.allocation.holding import Held, clash, clashes, given_twice, held_in, held_of
from dray.api.codec import view
from dray.api.resource import ResourceClaim
from dray.errors import InvalidError

A, B = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


def held(device: str = "g", share: str | None = None, pool: str = "n") -> Held:
    return Held("d.example", pool, device, None, share)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (held(), held(), True),
        (held(), held("h"), False),
        (held(), held(pool="m"), False),
        (held(share=A), held(), True),
        (held(), held(share=A), True),
        (held(share=A), held(share=A), True),
        (held(share=A), held(share=B), False),
        (held(share=""), held(share=B), True),
    ],
)
def test_who_goes_together(one: Held, other: Held, expected: bool) -> None:
    assert clashes(one, other) is expected is clashes(other, one)
    assert clash((held("x"), one), (held("y"), other)) == (one if expected else None)
    assert given_twice((one, held("x"), other)) == (other if expected else None)


def test_the_document_and_the_typed_claim_say_the_same() -> None:
    results = [
        {"request": "r", "driver": "d.example", "pool": "n", "device": "g", "shareID": A,
         "consumedCapacity": {"memory": "1Gi"}},
        {"request": "r", "driver": "d.example", "pool": "n", "device": "h", "adminAccess": True},
        {"request": "r", "driver": "d.example", "pool": "n", "device": "i", "fromTheFuture": 1},
    ]  # fmt: skip
    document = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}
    expected = (Held("d.example", "n", "g", None, A, {"memory": "1Gi"}), held("i"))
    assert held_in(json.dumps(document).encode()) == expected
    assert held_of(view(document, ResourceClaim)) == expected
    assert str(expected[1]) == "d.example/n/i"


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"status": {}}',
        b'{"status": {"allocation": null}}',
        b'{"status": null, "a": {"allocation": 1}}',
    ],
)
def test_a_claim_without_an_allocation_holds_nothing(raw: bytes) -> None:
    assert held_in(raw) == ()


@pytest.mark.parametrize(
    "allocation", ["3", '{"devices": {"results": 1}}', '{"devices": {"results": [{"pool": 1}]}}']
)
def test_what_cannot_be_read_is_not_taken_for_nothing(allocation: str) -> None:
    with pytest.raises(InvalidError, match=r"status\.allocation: cannot be read"):
        held_in(f'{{"status": {{"allocation": {allocation}}}}}'.encode())
