"""How a patch is refused."""

from __future__ import annotations

import json
from typing import Any, Final

from dray.errors import InvalidError

_MAX_SHOWN: Final = 120
_REASONS: Final = {
    400: "BadRequest",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


class PatchError(InvalidError):
    """A patch that cannot be applied. `status` and `reason` are what the API server answers in this case.

    400: the patch cannot be read. 413: too much of it. 415: this resource does not take this kind of patch.
    422: it does not fit the object; also where Kubernetes answers 500, since the fault is in the request.
    """

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message, field="patch")
        self.status = status
        self.reason = _REASONS[status]


def shown(value: Any) -> str:
    """A value for a message: JSON, cut where it is long."""
    if isinstance(value, str | int | float | None):
        text = value if isinstance(value, str) else json.dumps(value)
    else:
        text = _start(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _start(value: Any) -> str:
    """Enough of a container: it may be large, and as deep as a patch can be."""
    if not isinstance(value, dict):
        return f"a list of {len(value)}"
    return (
        f"{{{', '.join(json.dumps(str(key)) for key in sorted(value)[:5])}{', …' if len(value) > 5 else ''}}}"
    )
