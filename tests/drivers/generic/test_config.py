from __future__ import annotations

from typing import Any

import pytest

from dray.drivers.generic.config import KVM, GenericConfig, GenericDevice
from dray.errors import InvalidError


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a", "path": "dev/a"}, "path"),
        ({"name": "a", "path": "/"}, "path"),
        ({"name": "a", "path": "/dev/../etc"}, "path"),
        ({"name": "a", "path": "/dev//a"}, "path"),
        ({"name": "", "path": "/dev/a"}, "name"),
        ({"name": "a/b", "path": "/dev/a"}, "name"),
        ({"name": "a:b", "path": "/dev/a"}, "name"),
        ({"name": "a", "path": "/dev/a", "shares": 0}, "shares"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        GenericDevice(**fields)
    assert caught.value.field == field


def test_a_name_is_given_once() -> None:
    with pytest.raises(InvalidError, match="'kvm' is the name of two devices"):
        GenericConfig((KVM, GenericDevice("kvm", "/dev/kvm2")))
