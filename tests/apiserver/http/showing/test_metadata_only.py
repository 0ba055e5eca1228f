from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.apiserver.http.options import list_options
from dray.apiserver.http.paths import Place, parse_path
from dray.apiserver.http.showing.metadata_only import MetadataLines, metadata_of, wants_metadata
from dray.apiserver.http.watching.watches import Lines
from dray.apiserver.served import standard
from dray.apiserver.store.contract import Change, ChangeKind, Key, Stored
from tests.apiserver.http.asking import MAPS, asking

ACCEPT = (
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)
KIND = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (ACCEPT, True),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", True),
        ("application/json, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", False),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1", False),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_who_asks_for_it(accept: str, wanted: bool) -> None:
    assert wants_metadata(accept) is wanted


def test_an_object_loses_all_but_its_metadata() -> None:
    raw = (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"b":"c"}},"data":{"d":"e"}}'
    )
    assert json.loads(metadata_of(raw)) == {**KIND, "metadata": {"name": "a", "labels": {"b": "c"}}}


async def test_a_server_gives_lists_objects_and_watches_so(tmp_path: Path) -> None:
    async with asking(tmp_path) as client:
        document = {"metadata": {"name": "one", "labels": {"a": "b"}}, "data": {"c": "d"}}
        assert (await client.ask("POST", MAPS, document))[0] == 201
        code, one = await client.ask("GET", f"{MAPS}/one", Accept=ACCEPT)
        assert (
            code == 200 and one.keys() == {"kind", "apiVersion", "metadata"} and one.items() >= KIND.items()
        )
        code, told = await client.ask("GET", f"{MAPS}?labelSelector=a%3Db", Accept=ACCEPT)
        assert (code, told["kind"], told["apiVersion"]) == (
            200,
            "PartialObjectMetadataList",
            "meta.k8s.io/v1",
        )
        assert told["items"] == [one] and told["metadata"]["resourceVersion"]
        initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        empty = MAPS.replace("default", "kube-public")
        # Nothing is there, so the one line that comes says that this was all.
        _, event = await client.ask("GET", f"{empty}?watch=1&timeoutSeconds=1&{initial}", Accept=ACCEPT)
        end = event["object"]
        assert event["type"] == "BOOKMARK" and end.items() >= KIND.items()
        assert "k8s.io/initial-events-end" in end["metadata"]["annotations"]


def test_a_watch_selects_by_what_it_does_not_show() -> None:
    place = parse_path("/api/v1/pods", standard())
    assert isinstance(place, Place)
    lines = MetadataLines(place, list_options({"fieldSelector": "spec.nodeName=n1"}, place.served))
    for name, node, told in (("a", "n1", True), ("b", "n2", False)):
        document = {"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node}}
        stored = Stored(Key("pods", "default", name), "u", 5, json.dumps(document).encode())
        line = lines.change(Change(ChangeKind.ADDED, 5, stored, None))
        assert (line is not None) is told
        if line is not None:
            assert json.loads(line) == {"type": "ADDED", "object": {**KIND, "metadata": {"name": "a"}}}
    assert lines.shape != Lines(place, list_options({}, place.served)).shape
