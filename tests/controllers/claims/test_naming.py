"""Names of generated claims."""

from __future__ import annotations

import random

import pytest

from dray.api.names import SUFFIX_ALPHABET, dns_subdomain
from dray.controllers.claims.naming import claim_name, generate_name


@pytest.mark.parametrize(
    ("pod", "entry", "expected"),
    [
        ("web", "gpu", "web-gpu-"),
        ("a" * 50, "b" * 5, "a" * 50 + "-" + "b" * 5 + "-"),
        ("a" * 51, "b" * 5, "a" * 50 + "-" + "b" * 4),
        ("a" * 253, "b" * 63, "a" * 45 + "-" + "b" * 11),
        # A cut behind a dot would make `….-claim`, which no server takes.
        ("a" * 53 + "." + "c" * 6, "b", "a" * 53 + "-"),
    ],
)
def test_the_prefix_is_kubernetes_own_up_to_a_dot_before_the_dash(
    pod: str, entry: str, expected: str
) -> None:
    found = generate_name(pod, entry)
    assert found == expected
    assert len(found) <= 57


def test_the_name_is_the_same_at_every_try_and_another_for_anybody_else() -> None:
    first = claim_name("web", "uid-1", "gpu")
    assert first == claim_name("web", "uid-1", "gpu")
    assert first.startswith("web-gpu-")
    assert set(first.removeprefix("web-gpu-")) <= set(SUFFIX_ALPHABET)
    others = {
        claim_name("web", "uid-2", "gpu"),
        claim_name("web", "uid-1", "nic"),
        claim_name("web", "uid-1", "gpu", attempt=1),
    }
    assert len({first, *others}) == 4


def test_every_name_is_valid() -> None:
    rng = random.Random(7)
    for _ in range(500):
        words = ["".join(rng.choices("abc-", k=rng.randint(1, 60))).strip("-") or "x" for _ in range(4)]
        pod, entry = ".".join(words)[:253].rstrip(".-"), (words[0] * 2)[:63].rstrip("-")
        name = claim_name(pod, str(rng.random()), entry)
        assert dns_subdomain(name) == []
        assert len(name) <= 63
