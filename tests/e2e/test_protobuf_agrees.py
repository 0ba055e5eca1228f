"""Random objects as client-go sends them: what we read against what client-go's own codec reads, kind by kind."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from functools import cache

from dray.apiserver.http.protobuf.decode import decode_object
from dray.apiserver.http.protobuf.schema import Message, Shape, message_of
from dray.apiserver.http.protobuf.wire import parts, payloads
from dray.apiserver.patching.documents import is_same
from dray.errors import InvalidError
from tests.campaign import seeds
from tests.oracle_proto.program import TABLE, ProtoOracle, generated_table, kinds

FIRST = range(30)
"""These have every field of every kind, whatever else is tried."""
MAGIC = len(b"k8s\0")
_STRICTER = ("it is not UTF-8", "not valid UTF-8 text", "it is not in the years 1 to 9999")
"""Go takes such bodies and shows their values as something else than they are."""


def test_the_schema_is_what_the_go_types_say() -> None:
    assert TABLE.read_text() == generated_table(), "run python -m tests.oracle_proto.program"


def test_random_objects_of_every_kind_are_read_as_client_go_reads_them() -> None:
    wrong, seen, count = [], set[tuple[str, int]](), 0
    with ProtoOracle() as oracle:
        for kind in kinds():
            for seed in sorted({*FIRST, *seeds(30, 1000)}):
                answer = oracle.ask({"ask": "fill", "kind": kind, "seed": seed})
                body, count = b64decode(answer["body"]), count + 1
                message = _message(kind)
                seen.update(_fields(message, parts(body[MAGIC:], typeMeta=2, raw=2)[2]))
                if not is_same(decode_object(body), answer["json"]):
                    wrong.append(f"{kind} seed {seed}: {body!r}")
    print(f"{count} objects, {len(seen)} fields")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:3])
    every = {(one.name, number) for one in _below(*map(_message, kinds())) for number in one.fields}
    assert seen == every, "a field was in none of the objects"


def test_broken_bodies_are_refused_or_read_as_client_go_reads_them() -> None:
    outcomes, wrong = Counter[str](), []
    with ProtoOracle() as oracle:
        for kind in kinds():
            for seed in seeds(30, 1000):
                answer = oracle.ask({"ask": "fill", "kind": kind, "seed": seed})
                body = _broken(b64decode(answer["body"]), random.Random(f"{kind} {seed}"))
                cause = _compare(oracle, body)
                outcomes[cause.partition(":")[0]] += 1
                if cause.startswith("wrong"):
                    wrong.append(f"{kind} seed {seed}: {cause}: {body!r}")
    print(dict(outcomes))
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:3])
    assert min(outcomes["same"], outcomes["both refuse"]) > 20


def _compare(oracle: ProtoOracle, body: bytes) -> str:
    theirs = oracle.ask({"ask": "decode", "body": b64encode(body).decode()})
    try:
        ours = decode_object(body)
    except InvalidError as error:
        return "both refuse" if theirs["error"] else _stricter(str(error))
    if theirs["error"]:
        # The options of a deletion are known in every group there is; here in those that are not, too.
        return (
            "options of any group" if ours["kind"] == "DeleteOptions" else f"wrong: theirs {theirs['error']}"
        )
    return "same" if is_same(ours, theirs["json"]) else f"wrong: ours {ours}, theirs {theirs['json']}"


def _stricter(error: str) -> str:
    if error.endswith(_STRICTER):
        return "no such value"
    # Inside the entries of a map Go looks at no wire type, and reads on behind the entry's end.
    return "a broken entry of a map" if error.partition(": ")[0] in _maps() else f"wrong: ours {error}"


@cache
def _maps() -> set[str]:
    return {
        f"{message.name}.{field.name}"
        for message in _below(*map(_message, kinds()))
        for field in message.fields.values()
        if field.shape is Shape.MAP
    }


def _broken(body: bytes, chance: random.Random) -> bytes:
    """One to three bytes, or groups of bytes, changed, taken out or put in."""
    data = bytearray(body)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(MAGIC, len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at] ^= 1 << chance.randrange(8)
            case 2 if len(data) > 2 * MAGIC:
                del data[at : at + chance.randint(1, 3)]
            case _:
                source = chance.randrange(MAGIC, len(data))
                data[at:at] = data[source : source + chance.randint(1, 6)]
    return bytes(data)


def _message(kind: str) -> Message:
    api_version, _, name = kind.rpartition("/")
    message = message_of(api_version, name)
    assert message is not None, kind
    return message


def _fields(message: Message, data: bytes) -> Iterator[tuple[str, int]]:
    """All fields that are in an object."""
    for number, _, payload in payloads(data):
        field = message.fields[number]
        yield message.name, number
        if field.message is not None:
            is_map = field.shape is Shape.MAP
            yield from _fields(field.message, parts(payload, key=2, value=2)[2] if is_map else payload)


def _below(*waiting: Message) -> list[Message]:
    """These messages and all that are inside, each once."""
    found = dict[str, Message]()
    left = list(waiting)
    while left:
        message = left.pop()
        if message.name not in found:
            found[message.name] = message
            left += [one.message for one in message.fields.values() if one.message is not None]
    return list(found.values())
