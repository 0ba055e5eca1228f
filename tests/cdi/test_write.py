from __future__ import annotations

from pathlib import Path

import pytest

from dray.cdi.spec import Edits, NodeEdit, Spec, SpecDevice, read_spec
from dray.cdi.write import encode_spec, spec_name, spec_path
from dray.errors import InvalidError


def spec(number: int, size: int = 1) -> Spec:
    nodes = tuple(NodeEdit(f"/dev/{number}/{node}") for node in range(size))
    return Spec("0.5.0", "example.com/gpu", (SpecDevice("0", Edits((f"A={number}",), nodes)),))


def test_names() -> None:
    assert spec_name("example.com/gpu") == "example.com-gpu"
    assert spec_name("example.com/gpu", "ns/claim") == "example.com-gpu_ns_claim"
    with pytest.raises(InvalidError, match="kind 'nonsense': must be a vendor and a class"):
        spec_name("nonsense")
    assert spec_path(Path("/x"), "a.json") == Path("/x/a.json")
    assert spec_path(Path("/x"), "a.b") == Path("/x/a.b.yaml")
    for name in ("../a", "a/b", "a\0", ".json", "a" * 251):
        with pytest.raises(InvalidError, match="cannot be the name of a CDI file"):
            spec_path(Path("/x"), name)


@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_what_is_encoded_is_read_again(ending: str) -> None:
    text = encode_spec(spec(1), ending)
    assert read_spec(text, "f").spec == spec(1)
    assert text.startswith(b"{" if ending == ".json" else b"---\n")
    assert encode_spec(spec(1), ending) == text


@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_odd_characters_come_back(ending: str) -> None:
    odd = Spec(
        "1.0.0", "a/b", (SpecDevice("d", Edits(env=("A=\x00\x1b\x7f\x85\u2028\ufeff\U0001f600 \n\t'\"",))),)
    )
    assert read_spec(encode_spec(odd, ending), "f").spec == odd
