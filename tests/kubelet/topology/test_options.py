from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.kubelet.topology.options import MAX_NODES, PREFER_CLOSEST, PolicyOptions, parse_options


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        ({}, PolicyOptions(False, 8)),
        ({PREFER_CLOSEST: "true", MAX_NODES: "8"}, PolicyOptions(True, 8)),
        ({MAX_NODES: "12"}, PolicyOptions(False, 12)),
        ({MAX_NODES: "+0034"}, PolicyOptions(False, 34)),
        *(({PREFER_CLOSEST: text}, PolicyOptions(True)) for text in ("1", "t", "T", "TRUE", "true", "True")),
        *(
            ({PREFER_CLOSEST: text}, PolicyOptions(False))
            for text in ("0", "f", "F", "FALSE", "false", "False")
        ),
    ],
)
def test_options_that_there_are(texts: dict[str, str], options: PolicyOptions) -> None:
    assert parse_options(texts) == options


CLOSEST = 'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing '
NODES = 'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing '
TOO_FEW = 'the minimum value of "max-allowable-numa-nodes" should not be less than 8'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (PREFER_CLOSEST, "not a boolean", CLOSEST + '"not a boolean": invalid syntax'),
        (PREFER_CLOSEST, "", CLOSEST + '"": invalid syntax'),
        (PREFER_CLOSEST, "tRUE", CLOSEST + '"tRUE": invalid syntax'),
        (MAX_NODES, "can't parse to int", NODES + '"can\'t parse to int": invalid syntax'),
        (MAX_NODES, "1_0", NODES + '"1_0": invalid syntax'),
        (MAX_NODES, "١٢", NODES + '"١٢": invalid syntax'),
        (MAX_NODES, "9223372036854775808", NODES + '"9223372036854775808": value out of range'),
        (MAX_NODES, "9" * 5000, f'{NODES}"{"9" * 5000}": value out of range'),
        (MAX_NODES, "7", TOO_FEW),
        (MAX_NODES, "-9", TOO_FEW),
        ("fancy", "true", 'unknown Topology Manager Policy option: "fancy"'),
        ("fan\ncy", "true", 'unknown Topology Manager Policy option: "fan\\ncy"'),
    ],
)
def test_options_that_a_kubelet_does_not_take(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidError) as raised:
        parse_options({name: text})
    assert str(raised.value) == message
    assert raised.value.field == f"topologyManagerPolicyOptions.{name}"
