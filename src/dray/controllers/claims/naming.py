"""Names of claims made from templates: those of Kubernetes, but with a suffix that is the same at every try.

The API server would add five random letters to `generateName`. Here the letters come from the pod's uid and the name of
its claim, so that a controller that died after creating, a cache that lags, or two controllers at once all ask for
the same name, and all but the first are told that it exists.
"""

from __future__ import annotations

import hashlib
from typing import Final

from dray.api.names import SUFFIX_ALPHABET

_BASE_MAX: Final = 57
"""Bytes of the prefix, so that a name fits a label."""
_SUFFIX: Final = 5


def generate_name(pod: str, pod_claim: str) -> str:
    """`<pod>-<claim>-`; where that is too long both parts are cut in proportion, and the last dash is left out.

    A pod name cut after a dot loses the dot too: before a dash it would make the name invalid.
    """
    full = f"{pod}-{pod_claim}-"
    if len(full) <= _BASE_MAX:
        return full
    head = pod[: len(pod) * _BASE_MAX // len(full)].rstrip(".")
    return f"{head}-{pod_claim[: len(pod_claim) * _BASE_MAX // len(full)]}"


def claim_name(pod: str, uid: str, pod_claim: str, attempt: int = 0) -> str:
    """The claim's name. `attempt` counts names that strangers hold; it is 0 but for one case in fourteen million."""
    digest = hashlib.sha256(f"{uid}/{pod_claim}/{attempt}".encode()).digest()
    number = int.from_bytes(digest[:16], "big")
    letters = ""
    for _ in range(_SUFFIX):
        number, position = divmod(number, len(SUFFIX_ALPHABET))
        letters += SUFFIX_ALPHABET[position]
    return generate_name(pod, pod_claim) + letters
