"""Random broken objects: validation reports or accepts, and nothing else can happen. `make e2e` compares the answers."""

from __future__ import annotations

from dray.errors import InvalidError
from tests.api.cases.ours import our_errors
from tests.api.cases.random_cases import random_cases
from tests.campaign import campaign


def test_every_object_gets_an_answer() -> None:
    answers = {"accepted": 0, "rejected": 0, "not decoded": 0}
    for case in random_cases(1, campaign(2_000, 200_000)):
        try:
            errors = our_errors(case)
        except InvalidError:
            answers["not decoded"] += 1
            continue
        for error in errors:
            assert error.field, error
            assert error.message, error
            assert str(error).isprintable(), error
        answers["rejected" if errors else "accepted"] += 1
    assert min(answers.values()) > 100, answers


def test_the_same_seed_makes_the_same_cases() -> None:
    assert list(random_cases(7, 20)) == list(random_cases(7, 20))
