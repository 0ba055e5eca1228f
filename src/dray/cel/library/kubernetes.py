"""What every expression in Kubernetes 1.36 can use, in the order in which Kubernetes puts it together.

`bindings` (`cel.bind`) and `includes` belong to device selectors and are added there. Kubernetes' authorizer library is left
out: it works on a variable that device selectors do not have.
"""

from __future__ import annotations

from dray.cel.functions import Library
from dray.cel.library import (
    cidrs,
    comprehensions,
    formats,
    ips,
    kubernetes_lists,
    lists,
    optionals,
    quantity,
    regex,
    semver,
    sets,
    standard,
    strings,
    urls,
)

LIBRARIES: tuple[Library, ...] = (
    standard.LIBRARY,
    urls.LIBRARY,
    regex.LIBRARY,
    kubernetes_lists.LIBRARY,
    optionals.LIBRARY,
    quantity.LIBRARY,
    strings.LIBRARY,
    sets.LIBRARY,
    ips.LIBRARY,
    cidrs.LIBRARY,
    formats.LIBRARY,
    comprehensions.LIBRARY,
    semver.LIBRARY,
    lists.LIBRARY,
)
