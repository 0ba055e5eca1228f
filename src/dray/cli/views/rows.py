"""Tables of objects, one row an object: the columns that people ask for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dray.api.core import Event, Pod
from dray.api.meta import ObjectMeta
from dray.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dray.apiserver.http.showing.ages import age
from dray.apiserver.http.showing.pod_cells import NONE, pod_cells
from dray.cli.tables import NOTHING, Column, Row, Table, listed
from dray.cli.views.claim_words import (
    about,
    amount,
    claim_state,
    classes_of,
    devices_of,
    node_of,
    plugin_resources,
    told_by,
    users,
    why_claim_waits,
    why_pod_waits,
)
from dray.cli.views.fleet_rows import devices_table, nodes_table, slices_table
from dray.cli.views.objects import Objects
from dray.semantics.claims import claim_names

_SPACE: Final = Column("NAMESPACE")
_NAME: Final = Column("NAME")
_AGE: Final = Column("AGE", moves=True)
_WHY: Final = Column("WHY", cut=True)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(view: str, chosen: Sequence[Any], around: Objects, *, every_column: bool = False) -> Table:
    """The table of these objects; `around` has what explains them. WHY is left out where nobody waits."""
    table = _VIEWS[view](chosen, around)
    if every_column or _WHY not in table.columns:
        return table
    place = table.columns.index(_WHY)
    return table if any(row.cells[place] for row in table.rows) else table.without(_WHY.name)


def _key(meta: ObjectMeta) -> tuple[str, str]:
    return (meta.namespace, meta.name)


def pods_table(chosen: Sequence[Pod], around: Objects) -> Table:
    """DEVICES: those of its claims, and once a node has the pod how many it has of device plugins."""
    claims = {_key(one.metadata): one for one in around.claims}
    rows = []
    for pod in chosen:
        cells = [str(one) for one in pod_cells(pod, around.now)]
        rows.append(
            Row(
                _key(pod.metadata),
                (
                    pod.metadata.namespace,
                    *cells[:4],
                    listed(pod_devices(pod, claims)),
                    _blank(cells[6]),
                    cells[4],
                    why_pod_waits(pod),
                    _blank(cells[5]),
                    listed(sorted(claim_names(pod))),
                ),
            )
        )
    return Table(
        (
            _SPACE,
            _NAME,
            Column("READY"),
            Column("STATUS", state=True),
            Column("RESTARTS"),
            Column("DEVICES", cut=True),
            Column("NODE"),
            _AGE,
            _WHY,
            Column("IP", wide=True),
            Column("CLAIMS", wide=True),
        ),
        tuple(rows),
    )


def pod_devices(pod: Pod, claims: Mapping[tuple[str, str], ResourceClaim]) -> list[str]:
    """Devices of claims by name, resources of device plugins by number; of these it has none before it is on a node."""
    found: list[str] = []
    for name in sorted(claim_names(pod)):
        claim = claims.get((pod.metadata.namespace, name))
        found += devices_of(claim) if claim is not None else []
    given = plugin_resources(pod) if pod.spec.node_name else {}
    return found + [f"{count} {name}" for name, count in sorted(given.items())]


def claims_table(chosen: Sequence[ResourceClaim], around: Objects) -> Table:
    """WHY: only of those that wait."""
    by_claim = users(around.pods)
    classes = [one.metadata.name for one in around.classes] if not around.notes else None
    rows = []
    for claim in chosen:
        pods = by_claim.get(_key(claim.metadata), [])
        reserved = [one.name for one in claim.status.reserved_for]
        rows.append(
            Row(
                _key(claim.metadata),
                (
                    claim.metadata.namespace,
                    claim.metadata.name,
                    claim_state(claim),
                    listed(classes_of(claim.spec)),
                    listed(devices_of(claim)),
                    node_of(claim, pods),
                    listed(reserved or [pod.metadata.name for pod in pods]),
                    age(claim.metadata.creation_timestamp, around.now),
                    why_claim_waits(claim, pods, classes),
                    listed(dict.fromkeys(one.driver for one in _results(claim))),
                ),
            )
        )
    return Table(
        (
            _SPACE,
            _NAME,
            Column("STATE", state=True),
            Column("CLASS"),
            Column("DEVICES", cut=True),
            Column("NODE"),
            Column("POD", cut=True),
            _AGE,
            _WHY,
            Column("DRIVER", wide=True),
        ),
        tuple(rows),
    )


def _results(claim: ResourceClaim) -> Sequence[Any]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def templates_table(chosen: Sequence[ResourceClaimTemplate], around: Objects) -> Table:
    """What each claim made from it asks for."""
    rows = []
    for one in chosen:
        asked = one.spec.spec.devices.requests
        counts = [
            "1 of " + "|".join(each.name for each in request.first_available)
            if request.exactly is None
            else f"{amount(request.exactly)} {request.name}"
            for request in asked
        ]
        rows.append(
            Row(
                _key(one.metadata),
                (
                    one.metadata.namespace,
                    one.metadata.name,
                    listed(classes_of(one.spec.spec)),
                    listed(counts),
                    age(one.metadata.creation_timestamp, around.now),
                ),
            )
        )
    return Table((_SPACE, _NAME, Column("CLASS"), Column("REQUESTS", cut=True), _AGE), tuple(rows))


def classes_table(chosen: Sequence[DeviceClass], around: Objects) -> Table:
    """CLAIMS: how many of the cluster ask for it."""
    asked = Counter(
        name for claim in around.claims for one in classes_of(claim.spec) for name in one.split("|")
    )
    rows = [
        Row(
            _key(one.metadata),
            (
                one.metadata.name,
                listed([each.cel.expression for each in one.spec.selectors if each.cel is not None], most=1),
                one.spec.extended_resource_name or "",
                str(asked[one.metadata.name]),
                age(one.metadata.creation_timestamp, around.now),
            ),
        )
        for one in chosen
    ]
    columns = (_NAME, Column("SELECTOR", cut=True), Column("EXTENDED RESOURCE"), Column("CLAIMS"), _AGE)
    return Table(columns, tuple(rows))


def events_table(chosen: Sequence[Event], around: Objects) -> Table:
    """Oldest first."""
    ordered = sorted(chosen, key=lambda one: (one.last_seen or _LONG_AGO, one.metadata.name))
    rows = []
    for one in ordered:
        count = one.series.count if one.series is not None else one.count
        message = one.message.strip() + (f" (x{count})" if count > 1 else "")
        rows.append(
            Row(
                _key(one.metadata),
                (
                    one.metadata.namespace,
                    age(one.last_seen, around.now),
                    one.type,
                    one.reason,
                    about(one),
                    message,
                    told_by(one),
                ),
            )
        )
    columns = (
        _SPACE,
        Column("LAST SEEN", moves=True),
        Column("TYPE", state=True),
        Column("REASON"),
        Column("OBJECT"),
        Column("MESSAGE", cut=True),
        Column("BY", wide=True),
    )
    return Table(columns, tuple(rows))


def server_table(document: Mapping[str, Any], *, namespaced: bool) -> Table:
    """A table as an API server makes it (`as=Table`), for kinds that Dray has no columns for."""
    told = [one for one in document.get("columnDefinitions") or () if isinstance(one, Mapping)]
    columns = [
        Column(
            str(one.get("name", "")).upper(), wide=bool(one.get("priority")), moves=one.get("name") == "Age"
        )
        for one in told
    ]
    rows = []
    for one in document.get("rows") or ():
        meta = (one.get("object") or {}).get("metadata") or {}
        space = str(meta.get("namespace", ""))
        cells = tuple("" if cell is None else str(cell) for cell in one.get("cells") or ())
        rows.append(Row((space, str(meta.get("name", ""))), ((space, *cells) if namespaced else cells)))
    return Table((_SPACE, *columns) if namespaced else tuple(columns), tuple(rows))


def _blank(text: str) -> str:
    return "" if text in (NONE, NOTHING) else text


_VIEWS: Final[Mapping[str, Callable[[Any, Objects], Table]]] = {
    "nodes": nodes_table,
    "pods": pods_table,
    "claims": claims_table,
    "claimtemplates": templates_table,
    "classes": classes_table,
    "slices": slices_table,
    "devices": devices_table,
    "events": events_table,
}
"""Views with columns of our own; all other kinds are shown as their server words them."""


def has_rows(view: str) -> bool:
    """Whether there are columns of our own."""
    return view in _VIEWS
