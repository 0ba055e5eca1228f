from __future__ import annotations

import pytest

from dray.apiserver.http.options import ListOptions, Token, list_options
from dray.apiserver.served import standard
from dray.errors import InvalidError

PODS = standard().at("", "v1", "pods")
TOKEN = Token(7, "a/b").text()


def options(**query: str) -> ListOptions:
    return list_options(query, PODS)


def test_nothing_asked() -> None:
    assert options() == ListOptions()
    assert not options().select


def test_all_that_can_be_asked() -> None:
    found = options(
        labelSelector="a=b",
        fieldSelector="spec.nodeName=n,status.phase!=Failed",
        limit="5",
        timeoutSeconds="9",
    )
    assert (found.limit, found.timeout, found.pinned) == (5, 9.0, {"spec.nodeName": "n"})
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    assert found.select.takes(PODS, pod)
    assert not found.select.takes(PODS, pod | {"status": {"phase": "Failed"}})
    assert not found.select.takes(PODS, pod | {"metadata": {}})
    assert options(**{"continue": TOKEN}).token == Token(7, "a/b")
    watch = options(
        watch="1", allowWatchBookmarks="true", sendInitialEvents="true", resourceVersionMatch="NotOlderThan"
    )
    assert watch.is_watch and watch.wants_bookmarks and watch.wants_initial and watch.revision is None
    exact = options(resourceVersion="3", resourceVersionMatch="Exact")
    assert exact.is_exact and exact.revision == 3


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"labelSelector": "=,"}, ""),
        ({"fieldSelector": "spec.other=1"}, "fieldSelector"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"timeoutSeconds": "1" * 5000}, "timeoutSeconds"),
        ({"limit": "٣"}, "limit"),
        ({"resourceVersion": "1.5"}, "resourceVersion"),
        ({"resourceVersion": str(2**63)}, "resourceVersion"),
        ({"watch": "yes"}, "watch"),
        ({"continue": "???"}, "continue"),
        ({"continue": "e30"}, "continue"),
        ({"continue": TOKEN, "resourceVersion": "5"}, "resourceVersion"),
        ({"continue": TOKEN, "resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Other", "resourceVersion": "1"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
        ({"watch": "true", "resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch"),
        ({"watch": "true", "sendInitialEvents": "true"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, "sendInitialEvents"),
    ],
)
def test_what_makes_no_sense_is_named(query: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        list_options(query, PODS)
    assert not field or caught.value.field == field
