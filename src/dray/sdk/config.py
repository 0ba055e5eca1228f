"""What claims and classes may say to a driver (opaque parameters): read strictly, and refused by the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from dray.api.codec import view
from dray.api.codec.unknown_fields import unknown_fields
from dray.api.field_errors import FieldError, Path
from dray.api.validation.faults import not_supported, shortened
from dray.errors import InvalidError

IDENTITY: Final = ("apiVersion", "kind")
_SHOWN: Final = 64


class Config(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Fields with types and defaults; `max_watts` is `maxWatts` in a claim. For rules on one field use `msgspec.Meta`.

    For rules on several raise ValueError in `__post_init__`. Objects within are classes of this kind too.
    """

    @classmethod
    def read(cls, *given: Mapping[str, Any], api_version: str = "") -> Self:
        """Out of parameters, of which later ones count more, field by field. InvalidError names the field.

        `apiVersion` and `kind` may be there; the kind is the name of this class.
        """
        raw: dict[str, Any] = {}
        for one in given:
            _check_identity(one, api_version, cls.__name__)
            raw |= {key: value for key, value in one.items() if key not in IDENTITY}
        if faults := [_short(fault) for fault in unknown_fields(raw, cls, Path())]:
            raise _error(faults)
        return view(raw, cls)


def _check_identity(raw: Mapping[str, Any], api_version: str, kind: str) -> None:
    wanted = {"kind": kind, **({"apiVersion": api_version} if api_version else {})}
    faults = [
        not_supported(Path(key), shortened(str(raw[key]), _SHOWN), [value])
        for key, value in sorted(wanted.items())
        if key in raw and raw[key] != value
    ]
    if faults:
        raise _error(faults)


def _short(fault: FieldError) -> FieldError:
    """Keys come from strangers: a long one is not repeated."""
    return FieldError(
        shortened(fault.field, _SHOWN), fault.reason, shortened(fault.message, 4 * _SHOWN), fault.bad_value
    )


def _error(faults: list[FieldError]) -> InvalidError:
    return InvalidError(
        "; ".join(str(fault) for fault in faults[:5]), field=faults[0].field, causes=tuple(faults)
    )
