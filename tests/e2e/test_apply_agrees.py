"""Random applies and updates by a few managers: our field management against Kubernetes' own, alone and in an API server."""

from __future__ import annotations

import json
import random
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest

from dray.api import kinds
from dray.api.kinds import Resource
from dray.apiserver.patching.apply.apply import applied, updated
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.apply.fields import name_of
from dray.apiserver.patching.apply.schema import Document, filled, reset_fields
from dray.apiserver.patching.refusal import PatchError
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.campaign import campaign, seeds
from tests.oracle_apply.generate import Generator
from tests.oracle_apply.program import ApplyOracle

FIRST_SEED = 7_000_000
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", True, kinds.PODS.type, has_status=True)
KNOWN = (
    kinds.PODS,
    kinds.NODES,
    kinds.NAMESPACES,
    kinds.EVENTS,
    kinds.CONFIG_MAPS,
    kinds.LEASES,
    kinds.RESOURCE_CLAIMS,
    kinds.RESOURCE_CLAIM_TEMPLATES,
    kinds.RESOURCE_SLICES,
    kinds.DEVICE_CLASSES,
    kinds.DEVICE_TAINT_RULES,
)
Step = Callable[[Generator, Document | None], Document]


def test_the_schema_is_that_of_kubernetes() -> None:
    held = json.loads(files("dray.apiserver.patching.apply").joinpath("schema.json").read_bytes())
    asked = [[kind.api_version, kind.kind] for kind in KNOWN]
    with ApplyOracle() as oracle:
        assert oracle.ask({"ask": "schema", "kinds": asked}) == held


@pytest.mark.parametrize(
    "kind", [kinds.PODS, kinds.RESOURCE_CLAIMS, kinds.RESOURCE_SLICES, WIDGETS], ids=lambda kind: kind.kind
)
def test_sequences_agree_with_the_field_manager(kind: Resource[Any]) -> None:
    outcomes = _campaign(kind, seeds(200, 5_000, first=FIRST_SEED), 8, Generator.step)
    assert (
        min(outcomes["apply taken"], outcomes["update taken"], outcomes["conflict"], outcomes["refused"]) > 0
    )


@pytest.mark.parametrize("kind", [kind for kind in KNOWN if kind != kinds.PODS], ids=lambda kind: kind.kind)
def test_other_kinds_agree_too(kind: Resource[Any]) -> None:
    _campaign(kind, seeds(20, 1_000, first=FIRST_SEED), 6, Generator.step)


def test_many_managers_agree() -> None:
    outcomes = _campaign(kinds.NODES, seeds(30, 500, first=FIRST_SEED), 24, Generator.crowd)
    assert outcomes["ancient"] > 0


def _campaign(kind: Resource[Any], some: range, steps: int, next_step: Step) -> Counter[str]:
    outcomes, wrong = Counter[str](), []
    with ApplyOracle() as oracle:
        for seed in some:
            asked, ours = _story(kind, seed, steps, next_step)
            theirs = oracle.ask(asked)["steps"]
            for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                outcomes.update(_seen(asked["steps"][index], mine))
                if not _agree(mine, other):
                    wrong.append(
                        f"seed {seed} step {index}\nasked {json.dumps(asked['steps'][index])}\n"
                        f"before {json.dumps(ours[index - 1] if index else None)}\n"
                        f"ours   {json.dumps(mine)}\ntheirs {json.dumps(other)}"
                    )
                    break
    print(kind.kind, dict(outcomes))
    assert not wrong, f"{len(wrong)} of {len(some)} differ:\n" + "\n".join(wrong[:2])
    return outcomes


def _story(kind: Resource[Any], seed: int, count: int, next_step: Step) -> tuple[Document, list[Document]]:
    """The question, and our answer to it: we go first, since an update starts from what is there."""
    generator = Generator(seed, kind)
    live: Document | None = None
    steps, outcomes = [], []
    for index in range(count):
        step = next_step(generator, live)
        step["reset"] = [
            [name_of(element) for element in path] for path in reset_fields(kind, step["subresource"])
        ]
        steps.append(deepcopy(step))
        outcome = _taken(kind, live, step, datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=index))
        if "object" in outcome:
            live = outcome["object"]
            live["metadata"].setdefault("uid", "1")
        outcomes.append(deepcopy(outcome))
    asked = {
        "ask": "steps",
        "kind": [kind.api_version, kind.kind],
        "deduced": kind is WIDGETS,
        "steps": steps,
    }
    return asked, outcomes


def _taken(kind: Resource[Any], live: Document | None, step: Document, now: datetime) -> Document:
    before = deepcopy((live, step))
    try:
        if step["do"] == "apply":
            made = applied(
                kind, live, step["object"], step["manager"], step["force"], step["subresource"], now
            )
        else:
            made = updated(kind, live, step["object"], step["manager"], step["subresource"], now)
    except ApplyConflictError as error:
        causes = [(cause.reason, cause.message, cause.field) for cause in error.causes]
        return {"code": 409, "error": error.message, "causes": causes}
    except PatchError as error:
        return {"code": error.status, "error": str(error)}
    assert before == (live, step), "what was given must not change"
    # An apply leaves out the parts that are always there where they are null.
    return {"object": filled(kind, made)}


def _seen(step: Document, outcome: Document) -> list[str]:
    if "object" not in outcome:
        return ["conflict" if outcome["code"] == 409 else "refused"]
    entries = outcome["object"]["metadata"].get("managedFields", [])
    ancient = any(entry.get("manager") == "ancient-changes" for entry in entries)
    return [f"{step['do']} taken", *(["ancient"] if ancient else [])]


def _agree(ours: Document, theirs: Document) -> bool:
    if "object" in ours and "object" in theirs:
        return _text(ours["object"]) == _text(theirs["object"])
    if "object" in ours or "object" in theirs:
        return False
    if ours["code"] == 409:
        said = [(one["reason"], one["message"], one["field"]) for one in theirs["causes"]]
        return ours["error"] == theirs["error"] and sorted(ours["causes"]) == sorted(said)
    # Several faults come in the order of Go's maps; where Kubernetes answers 500, we say that the request is at fault.
    one_fault = "errors:" not in theirs["error"] + ours["error"]
    codes = {(400, 400), (422, 500)}
    same_text = ours["error"] == " ".join(theirs["error"].split())
    return (ours["code"], theirs["code"]) in codes and (same_text or not one_fault)


def _text(document: Document) -> str:
    """As text, so that true is not 1 and the order of FieldsV1 counts; that of entries is tested by itself."""
    document = deepcopy(document)
    entries = document["metadata"].pop("managedFields", [])
    for entry in entries:
        fields = entry["fieldsV1"]
        entry["fieldsV1"] = json.dumps(json.loads(fields) if isinstance(fields, str) else fields)
    texts = sorted(json.dumps(entry, sort_keys=True) for entry in entries)
    return json.dumps([document, texts], sort_keys=True)


# A whole API server: documents here are what it made of them, structs and all.

MANAGERS = ("one", "two", "three")


class Writer:
    """A client of a real API server that says which field manager it is."""

    def __init__(self, plane: ControlPlane) -> None:
        parts = urlsplit(plane.server)
        context = ssl.create_default_context(cafile=str(plane.authority.certificate))
        self._connection = HTTPSConnection(parts.hostname or "", parts.port, context=context, timeout=30)
        self._token = plane.admin_token

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Document | None = None) -> tuple[int, Document]:
        kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._token}"}
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture
def writer(apiserver: ControlPlane) -> Iterator[Writer]:
    made = Writer(apiserver)
    yield made
    made.close()


@pytest.mark.parametrize(
    "kind",
    [kinds.NODES, kinds.CONFIG_MAPS, kinds.LEASES, kinds.RESOURCE_SLICES, kinds.NAMESPACES],
    ids=lambda kind: kind.kind,
)
def test_an_api_server_agrees(writer: Writer, kind: Resource[Any]) -> None:
    chance, seen = random.Random(kind.kind), Counter[str]()
    path = kind.path("default" if kind.namespaced else None, "apply-agrees")
    live: Document | None = None
    try:
        for _ in range(campaign(40, 400)):
            step = _server_step(chance, kind, live)
            code, answer = _send(writer, path, step)
            seen[f"{step['do']} {code}"] += 1
            ours = _taken(kind, live, step, datetime(2020, 1, 1, tzinfo=UTC))
            if code >= 300:
                assert (code, answer["message"]) == (ours.get("code"), ours.get("error")), step
                continue
            assert "object" in ours, f"{ours} for {json.dumps(step)} on {json.dumps(live)}"
            assert _owners(ours["object"]) == _owners(answer), f"{json.dumps(step)} on {json.dumps(live)}"
            # Admission adds to a new object.
            assert live is None or _content(ours["object"], step) == _content(answer, step)
            live = answer
    finally:
        writer.ask("DELETE", path)
    print(kind.kind, dict(seen))
    assert seen["apply 409"] > 0
    assert seen["update 200"] > 0


def _send(writer: Writer, path: str, step: Document) -> tuple[int, Document]:
    door = f"/{step['subresource']}" if step["subresource"] else ""
    query = f"?fieldManager={step['manager']}"
    if step["do"] == "update":
        return writer.ask("PUT", f"{path}{door}{query}", step["object"])
    return writer.ask("PATCH", f"{path}{door}{query}&force={json.dumps(step['force'])}", step["object"])


def _server_step(chance: random.Random, kind: Resource[Any], live: Document | None) -> Document:
    """The first creates; an update changes what is there."""
    door = "status" if live and kind is kinds.NODES and chance.random() < 0.3 else ""
    part = _part(chance, kind, door)
    do = "update" if live and chance.random() < 0.3 else "apply"
    document: Document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "apply-agrees"},
    }
    if do == "update" and live:
        document = deepcopy(live)
    for name, value in part.items():
        merged = isinstance(value, dict) and do == "update"
        document[name] = {**document.get(name, {}), **value} if merged or name == "metadata" else value
    if do == "update":
        document = _without_empty(document)
    force = live is None or chance.random() < 0.4
    return {
        "do": do,
        "manager": chance.choice(MANAGERS),
        "force": force,
        "subresource": door,
        "object": document,
    }


def _part(chance: random.Random, kind: Resource[Any], door: str) -> Document:
    def some(**values: Any) -> Document:
        return {name: value for name, value in values.items() if chance.random() < 0.6}

    def word() -> str:
        return chance.choice("xyz")

    def labels() -> Document:
        return some(a=word(), b=word(), c=word())

    if door == "status":
        # A struct writes these times even when they are not set: see `filled` for what we know of that.
        when = {"lastHeartbeatTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        conditions = [
            {"type": one, "status": "True", "reason": word(), **when} for one in chance.sample("ABC", 2)
        ]
        addresses = [{"type": "Hostname", "address": word()}]
        return {"status": some(conditions=conditions, addresses=addresses, allocatable={word(): "1"})}
    part: Document = {"metadata": some(labels=labels(), annotations=labels(), finalizers=[f"x.y/{word()}"])}
    taints = [{"key": word(), "effect": "NoSchedule", "value": word()} for _ in range(chance.randrange(2))]
    device = {"name": word(), "attributes": {"m": {"string": word()}}}
    pool = {"name": "p", "generation": chance.randrange(2), "resourceSliceCount": 1}
    parts: dict[str, Document] = {
        "Node": {"spec": some(taints=taints, unschedulable=chance.random() < 0.5)},
        "ConfigMap": some(data=labels(), binaryData={word(): "YQ=="}),
        "Lease": {"spec": some(holderIdentity=word(), leaseDurationSeconds=chance.randint(1, 3))},
        "ResourceSlice": {"spec": {"driver": "d.e", "nodeName": "n", "pool": pool, **some(devices=[device])}},
    }
    return part | parts.get(kind.kind, {})


def _owners(document: Document) -> list[Document]:
    entries = document["metadata"].get("managedFields", [])
    known = [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
    return sorted(known, key=lambda entry: json.dumps(entry, sort_keys=True))


def _content(document: Document, step: Document) -> Document:
    """What the door writes."""
    metadata = {name: document["metadata"].get(name) for name in ("labels", "annotations", "finalizers")}
    rest = {name: value for name, value in document.items() if name not in ("metadata", "status")}
    if step["subresource"]:
        rest, metadata = {"status": document.get("status")}, {}
    content: Document = _without_empty({**rest, **metadata})
    return content


def _without_empty(value: Any) -> Any:
    """The document as structs write it: most of what is empty they leave out. The server sets the name's label itself."""
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: _without_empty(one) for name, one in value.items() if name != "kubernetes.io/metadata.name"}
    return {name: one for name, one in made.items() if one not in ({}, [], None) and one is not False}
