from __future__ import annotations

from typing import Any

import pytest

from dray.drivers.pci.config import PciSelector
from dray.errors import InvalidError


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": "10de"},
        {"id": "10de:xyz"},
        {"id": "10de:2330:1"},
        {"address": "5:0.0"},
        {"id": "10de:2330", "address": "0000:05:00.0"},
    ],
)
def test_what_selects_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        PciSelector("a/b", **fields)
