"""JSON in and out: typed views, raw values, and what an error says."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec import Manifest, decode, dump_yaml, encode, load_values, loads, to_raw, view
from dray.api.core import Pod
from dray.api.quantity import Quantity
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.api.taints import Effect
from dray.errors import InvalidError
from tests.campaign import campaign


class Sample(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    some_size: Quantity | None = None
    sizes: dict[str, Quantity] = msgspec.field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    inner: tuple[dict[str, Sample], ...] = ()
    by_number: dict[int, int] = msgspec.field(default_factory=dict)
    anything: Any = None
    when: datetime | None = None
    name: str = ""


def fault(data: bytes | str, kind: type[Any] = Sample) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        decode(data, kind)
    assert "\n" not in str(caught.value)
    assert "$" not in caught.value.field
    return caught.value


def test_quantities_are_fields() -> None:
    value = decode(b'{"someSize":"1024Mi","sizes":{"a":5,"b":1.5,"c":" 2Ki "}}', Sample)
    assert value.some_size == Quantity("1Gi")
    assert [str(size) for size in value.sizes.values()] == ["5", "1500m", "2Ki"]
    assert encode(value) == b'{"someSize":"1Gi","sizes":{"a":"5","b":"1500m","c":"2Ki"}}'
    assert to_raw(value) == {"someSize": "1Gi", "sizes": {"a": "5", "b": "1500m", "c": "2Ki"}}
    assert view(to_raw(value), Sample) == value


def test_a_number_keeps_the_form_it_was_written_in() -> None:
    value = decode(b'{"someSize":1e3,"anything":[1e3,2.50]}', Sample)
    assert str(value.some_size) == "1e3"
    assert encode(value) == b'{"someSize":"1e3","anything":[1000.0,2.5]}'


def test_null_is_absent_everywhere() -> None:
    value = decode(b'{"name":null,"sizes":null,"numbers":[1,null],"inner":[null],"someSize":null}', Sample)
    assert value == Sample(numbers=(1, 0), inner=({},))


@pytest.mark.parametrize(
    ("data", "field", "text"),
    [
        ('{"name":5}', "name", "expected `str`, got `int`"),
        ('{"numbers":[1,2,"x"]}', "numbers[2]", "expected `int`, got `str`"),
        ('{"someSize":"5GB"}', "someSize", "quantities must match the regular expression"),
        ('{"someSize":{}}', "someSize", "quantities must match the regular expression"),
        ('{"sizes":{"ok":"1","a.b/c":"x"}}', "sizes[a.b/c]", "quantities must match the regular expression"),
        ('{"inner":[{},{"k":{"inner":[{"j":{"sizes":{"z":true}}}]}}]}', "inner[1][k].inner[0][j].sizes[z]", "quantities"),
        ('{"byNumber":{"x":1}}', "byNumber", "bad key: Expected `int`, got `str`"),
        ('{"name":null,"numbers":["x"]}', "numbers[0]", "expected `int`, got `str`"),
        ('{"when":"yesterday"}', "when", "invalid RFC3339 encoded datetime"),
        ("[]", "", "expected `object`, got `array`"),
        ('{"numbers":1e999}', "", "line 1, column"),
    ],
)  # fmt: skip
def test_errors_name_the_field(data: str, field: str, text: str) -> None:
    error = fault(data)
    assert error.field == field
    assert text in str(error)
    if field:
        assert str(error).startswith(f"{field}: ")
        assert [cause.field for cause in error.causes] == [field]
        with pytest.raises(InvalidError) as caught:
            view(json.loads(data), Sample)
        assert str(caught.value) == str(error)


def test_a_key_that_looks_like_a_path() -> None:
    assert fault('{"sizes":{"[...]":"1","x.y[0]":"bad"}}').field == "sizes[x.y[0]]"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ('{"a":\n  nope}', "line 2, column 4"),
        ('{"a" 1}', "line 1, column 6"),
        ("", "line 1, column 1"),
        ('{"a":1,}', "line 1, column 8"),
        ('{"a":NaN}', "line 1, column 6"),
        ('{"a":1} x', "line 1, column 1"),
        ("{'a':1}", "line 1, column 2"),
        (b'{"name":\n"\xff"}', "line 2, column 2"),
        (b'\xef\xbb\xbf{"a":1}', "line 1, column 1"),
        ('{"name":"\ud800"}', "line 1, column"),
        ('{"name":"\\ud800"}', "line 1, column"),
    ],
)
def test_syntax_errors_name_line_and_column(data: str | bytes, place: str) -> None:
    assert place in str(fault(data))
    with pytest.raises(InvalidError) as caught:
        loads(data, "f.json")
    assert str(caught.value).startswith("f.json:")


def test_depth_never_ends_in_a_traceback() -> None:
    for opening in (b"[", b'{"a":', b'{"inner":[{"a":', b'{"anything":['):
        for data in (opening * 100_000, b'{"unknown":' + opening * 100_000):
            assert str(fault(data))
            with pytest.raises(InvalidError, match="nested too deeply"):
                loads(data)
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    for action in (
        lambda: encode(deep),
        lambda: to_raw(deep),
        lambda: view({"anything": deep, "name": 5}, Sample),
    ):
        with pytest.raises(InvalidError):
            action()


def test_half_characters_are_not_written() -> None:
    with pytest.raises(InvalidError, match="half a character"):
        encode({"a": "\ud800"})


def test_half_characters_are_no_text_of_a_view() -> None:
    with pytest.raises(InvalidError, match=r"'\\ud800' has half a character"):
        view("\ud800", Effect)


def test_other_types_are_a_bug() -> None:
    with pytest.raises((TypeError, NotImplementedError)):
        encode({"a": object()})


def test_dump_yaml_takes_views_manifests_and_plain_data() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    text = dump_yaml(Sample(some_size=Quantity("1Gi"), when=moment), Manifest.of({"kind": "X"}), {"a": [1]})
    assert text == 'someSize: 1Gi\nwhen: "2026-01-02T03:04:05Z"\n---\nkind: X\n---\na:\n- 1\n'.replace(
        "someSize: 1Gi", 'someSize: "1Gi"'
    )
    assert load_values(text)[0].value == {"someSize": "1Gi", "when": "2026-01-02T03:04:05Z"}


def test_importing_the_codec_does_not_import_yaml() -> None:
    code = "import sys, dray.api.codec; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


KINDS: list[Any] = [Pod, ResourceSlice, ResourceClaim, Sample]
SEEDS = [
    b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"b":"c"}},"spec":{"containers":[{"name":"x"}]}}',
    b'{"spec":{"driver":"d","pool":{"generation":1},"devices":[{"name":"a","capacity":{"memory":{"value":"80Gi"}}}]}}',
    b'{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","count":1}}]}},"status":{}}',
]
fragments = st.sampled_from(
    [b"null", b"1e3", b'"1Gi"', b"[]", b"{}", b"-", b'"', b"\\u00", b"\xff", b",", b"true", b"9" * 30]
)


@settings(max_examples=campaign(200, 60_000))
@given(st.data())
def test_any_bytes_decode_or_are_invalid(data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS))
    start = data.draw(st.integers(0, len(seed)))
    end = data.draw(st.integers(start, min(len(seed), start + 12)))
    mutated = seed[:start] + data.draw(fragments | st.binary(max_size=8)) + seed[end:]
    if data.draw(st.booleans()):
        mutated = mutated[: data.draw(st.integers(0, len(mutated)))]
    for kind in KINDS:
        try:
            value = decode(mutated, kind)
        except InvalidError as error:
            assert "\n" not in str(error)
        else:
            assert decode(encode(value), kind) == value
