from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, repeat

import pytest

from dray.apiserver.writing.faults import AlreadyExistsError
from dray.apiserver.writing.names import ATTEMPTS
from dray.errors import InvalidError
from tests.apiserver.writing.small_store import SmallStore


def test_a_prefix_gets_five_characters() -> None:
    created = SmallStore().create("configmaps", {"metadata": {"generateName": "web-"}})
    assert re.fullmatch("web-[bcdfghjklmnpqrstvwxz2456789]{5}", created["metadata"]["name"])
    assert created["metadata"]["generateName"] == "web-"


def test_a_name_that_is_given_wins() -> None:
    created = SmallStore().create("configmaps", {"metadata": {"name": "a", "generateName": "web-"}})
    assert created["metadata"]["name"] == "a"


@pytest.mark.parametrize(("length", "kept"), [(10, 10), (58, 58), (100, 58)])
def test_a_long_prefix_is_cut(length: int, kept: int) -> None:
    created = SmallStore().create("configmaps", {"metadata": {"generateName": "a" * length}})
    assert len(created["metadata"]["name"]) == kept + 5


def test_a_name_that_is_taken_is_tried_again() -> None:
    store = SmallStore()
    suffixes = chain(repeat("bbbbb", ATTEMPTS), repeat("ccccc"))
    store.rules = replace(store.rules, new_suffix=lambda: next(suffixes))
    names = [
        store.create("configmaps", {"metadata": {"generateName": "a-"}})["metadata"]["name"] for _ in "12"
    ]
    assert names == ["a-bbbbb", "a-ccccc"]


def test_after_eight_names_it_is_given_up() -> None:
    store = SmallStore()
    tried: list[str] = []

    def suffix() -> str:
        tried.append("bbbbb")
        return "bbbbb"

    store.rules = replace(store.rules, new_suffix=suffix)
    store.create("configmaps", {"metadata": {"generateName": "a-"}})
    text = 'configmaps "a-bbbbb" already exists, the server was not able to generate a unique name for the object'
    with pytest.raises(AlreadyExistsError, match=re.escape(text)):
        store.create("configmaps", {"metadata": {"generateName": "a-"}})
    assert len(tried) == 1 + ATTEMPTS


def test_a_prefix_that_is_no_name() -> None:
    with pytest.raises(InvalidError, match=r"metadata\.generateName: Invalid value"):
        SmallStore().create("configmaps", {"metadata": {"generateName": "A_"}})
