"""Edge and random cases for the oracle. The same random source gives the same cases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Case = dict[str, Any]

_UNITS = ["", "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_EDGES = """
0 -0 +0 00 0.0 . - + Ki m E e5 +. -.Ki 0Ki 0m 0e3 1 -1 +1 01 007Ki +5 1.500 1.5 0.5 .5 5. 5.Ki 1. 1.0 100m 1000m
1024 1000 1024Ki 1023Ki 1025Ki 1024Mi 1536Mi 1.5Gi 0.5Ki 0.1Ki 0.0001Ki 1.1Ki 8Ki 7Ki 64Gi 1000Ki 1e3 1E3 1e-3 12e6
1e0 1e1 1e2 1e+2 1E-9 1e-10 0.1n 1n 0.9n 1.1n 999999999n 0.000000001 0.0000000001 -0.0000000001 1e18 1e19 1e20
9223372036854775807 9223372036854775808 -9223372036854775807 -9223372036854775808 -9223372036854775809
9223372036854775807Ki 8Ei 7Ei 7.9Ei 8191Pi 8192Pi 9999Ei -8Ei -9Ei 0.9Ei 1Pi 2Ti 99Ti 100Ti 1E 9E 10E 92E 1000E
999999999999999999 9999999999999999999 123456789012345678 1234567890123456789 0.123456789 0.1234567891
12345678901234567890123456789012345678901234567890 0.00000000000000000000 1.00000000000000000000 000000000000000000001
1e21 1e24 5e24 123e30 1e40 1K 1i 1ki 1mi 1KI 1e 1E+ 1e+ 1e- 1ee5 1e5e 1e5Ki 1k5 1+5 1-5 1.2.3 ++1 +-1 1.Gi.1 1,5 1_0
0x10 1e99999999999999999999 inf NaN 1Zi 1mm 1Em 1EE 1Eie 1nm 1.5E3 1.5e-3 1500e-3 0.001e3 1000e3 -1000e3 1e-12 -1.1n
""".split()  # noqa: SIM905


def quantity_questions(source: random.Random, count: int) -> Iterator[Case]:
    """Every edge alone and with a partner, then random pairs."""
    edges = [*_EDGES, " 1", "1 ", "1 k", "٣", "1é", "1\n", "\x001", "1m\n"]
    for index in range(count):
        if index < len(edges):
            yield {"kind": "quantity", "a": edges[index]}
        elif index < 4 * len(edges):
            yield {"kind": "quantity", "a": source.choice(edges), "b": source.choice(edges)}
        else:
            yield {"kind": "quantity", "a": _quantity(source), "b": _partner(source)}


def _partner(source: random.Random) -> str:
    return source.choice(_EDGES) if source.random() < 0.1 else _quantity(source)


def _quantity(source: random.Random) -> str:
    sign = source.choice(["", "", "", "", "-", "+"])
    number = _digits(source)
    shape = source.random()
    if shape < 0.3:
        number += "." + _digits(source)
    elif shape < 0.35:
        number = "." + number
    elif shape < 0.4:
        number += "."
    if source.random() < 0.15:
        number = "0" * source.randint(1, 3) + number
    suffix = source.choice(_UNITS)
    if source.random() < 0.2:
        suffix = source.choice("eE") + source.choice(["", "+", "-"]) + str(source.randint(0, 25))
    elif source.random() < 0.03:
        suffix = "".join(source.choices("eEinumkKMGTP+-05. x", k=source.randint(1, 4)))
    return sign + number + suffix


def _digits(source: random.Random) -> str:
    shape = source.random()
    if shape < 0.1:
        return str(max(2 ** source.randint(0, 66) + source.randint(-2, 2), 0))
    if shape < 0.2:
        return str(source.randint(1, 999)) + "0" * source.randint(0, 18)
    length = source.choice([1, 1, 2, 3, 4, 5, 9, 10, 13, 14, 15, 17, 18, 19, 20, 25])
    return "".join(source.choices("0123456789", k=length))


def value_questions(source: random.Random, count: int) -> Iterator[Case]:
    """Versions, selectors and names, in turn."""
    makers = [_semver, _labels, _fields, *[_named(rule) for rule in _RULES]]
    for index in range(count):
        yield makers[index % len(makers)](source)


def _semver(source: random.Random) -> Case:
    return {"kind": "semver", "a": _version(source), "b": _version(source)}


def _version(source: random.Random) -> str:
    numbers = ["0", "0", "1", "1", "2", "10", "01", "18446744073709551615", "18446744073709551616", ""]
    weights = [9, 9, 9, 9, 9, 9, 0.5, 0.5, 0.5, 0.5]
    text = ".".join(source.choices(numbers, weights, k=source.choice([3, 3, 3, 3, 3, 3, 3, 2, 4])))
    parts = ["a", "b", "alpha", "beta", "rc", "0", "1", "2", "11", "x-y", "-", "01", "1a", "A", "", "é"]
    weights = [9] * 11 + [0.5, 9, 9, 0.3, 0.3]
    if source.random() < 0.6:
        text += "-" + ".".join(source.choices(parts, weights, k=source.randint(1, 3)))
    if source.random() < 0.3:
        text += "+" + ".".join(source.choices(parts, weights, k=source.randint(1, 2)))
    return text


def _labels(source: random.Random) -> Case:
    tokens = [
        "a",
        "b",
        "x/y",
        "in",
        "notin",
        "=",
        "==",
        "!=",
        "!",
        "(",
        ")",
        ",",
        "<",
        ">",
        "1",
        "5",
        " ",
        "\t",
        "-",
        "é",
    ]
    if source.random() < 0.5:
        text = "".join(source.choices(tokens, k=source.randint(0, 10)))
    else:
        text = source.choice([",", " , "]).join(_requirement(source) for _ in range(source.randint(1, 3)))
    labels = {
        key: source.choice(["", "a", "b", "1", "5", "7", "-3"])
        for key in ("a", "b", "in")
        if source.random() < 0.6
    }
    return {"kind": "labels", "a": text, "labels": labels}


def _requirement(source: random.Random) -> str:
    key = source.choice(["a", "b", "in", "x.y/z", "missing"])
    value = source.choice(["", "a", "b", "1", "5", "-3", "9223372036854775808", "a.b"])
    shape = source.randint(0, 9)
    if shape < 4:
        return key + source.choice(["=", "==", "!=", " = ", ">", "<", " > "]) + value
    if shape < 7:
        values = ",".join(source.choices(["a", "b", "", "1", "in", " a "], k=source.randint(0, 3)))
        return f"{key} {source.choice(['in', 'notin'])} ({values})"
    return source.choice(["", "!", "! "]) + key


def _fields(source: random.Random) -> Case:
    tokens = ["metadata.name", "a", "=", "==", "!=", "\\", "\\,", "\\=", ",", "!", "b", " ", "\n", "é"]
    if source.random() < 0.5:
        text = "".join(source.choices(tokens, k=source.randint(0, 8)))
    else:
        terms = [source.choice(["a", "b"]) + source.choice(["=", "==", "!="]) + source.choice(["", "x", "\\=", "x\\,y"])
                 for _ in range(source.randint(0, 3))]  # fmt: skip
        text = ",".join(terms)
    fields = {key: source.choice(["", "x", "=", "x,y"]) for key in ("a", "b") if source.random() < 0.7}
    return {"kind": "fields", "a": text, "labels": fields}


_RULES = [
    "dns_label", "dns_subdomain", "dns_1035_label", "label_key", "label_value", "annotation_key", "c_identifier",
    "path_segment", "config_map_key",
]  # fmt: skip


def _named(rule: str) -> Any:
    def make(source: random.Random) -> Case:
        if source.random() < 0.2:
            text = source.choice("aA0") * source.choice([31, 32, 62, 63, 64, 252, 253, 254])
        else:
            text = "".join(source.choices("aabz09AZ-._/ %é\n", [9, 9, 9, 9, 9, 9, 3, 3, 5, 5, 3, 3, 1, 1, 1, 1],
                                          k=source.randint(0, 12)))  # fmt: skip
        if source.random() < 0.2:
            text = source.choice(["example.com/", "a/", "/", "-/"]) + text
        return {"kind": rule, "a": text}

    return make
