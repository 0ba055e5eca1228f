"""Why an address cannot be listened on, in one way of wording it."""

from __future__ import annotations

import errno
import os

from dray.errors import Error, UnavailableError


def cannot_listen(host: str, port: int, error: OSError, advice: str) -> UnavailableError:
    """To be raised from `error`. The kernel's word is enough: what asyncio says names the address once more."""
    is_kernels = error.errno is not None and error.errno > 0
    reason = os.strerror(error.errno or 0).lower() if is_kernels else error.strerror or str(error)
    return UnavailableError(f"cannot listen on {host}:{port}: {reason}; {advice}")


def is_port_taken(error: Error) -> bool:
    """Whether that was the reason: somebody else has it."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
