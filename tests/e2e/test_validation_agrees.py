"""Our validation and a real API server's agree: on accept or reject, and on every field and reason."""

from __future__ import annotations

import copy
import http.client
from collections.abc import Iterator
from typing import Any

import pytest

from dray.api.codec.nulls import without_nulls
from dray.api.defaults import set_defaults
from dray.api.kinds import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.validation import check_admin_access, check_admin_access_status
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.api.cases.case import NAMESPACE, Case, Document, Faults, edited
from tests.api.cases.claims import claim_document, template_of
from tests.api.cases.ours import NOT_DECODED, NOW, our_faults, view
from tests.api.cases.random_cases import random_cases
from tests.api.cases.theirs import Server, their_verdict
from tests.api.validation_cases import CASES
from tests.campaign import campaign, seeds

DEFAULTED = (
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
    "Pod",
)
ADMITTED = ("tolerations", "priority", "preemptionPolicy", "serviceAccount", "serviceAccountName")


@pytest.fixture(scope="module")
def server(gated: ControlPlane) -> Iterator[Server]:
    connection = Server(gated.server, str(gated.authority.certificate), gated.admin_token)
    connection.must("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield connection
    connection.close()


def _difference(server: Server, case: Case, ours: Faults) -> str:
    """One line where the two do not agree."""
    code, theirs = their_verdict(server, case)
    if ours == NOT_DECODED:
        return "" if code == 400 else f"{case.name}: not decoded here, there {code} {sorted(theirs)}"
    if (code < 300) != (not ours) or theirs != ours:
        return f"{case.name}: here {sorted(ours - theirs)}, there {code} {sorted(theirs - ours)}"
    return ""


def test_hand_made_cases(server: Server) -> None:
    differences = [
        line for case in CASES if not case.ours_only and (line := _difference(server, case, our_faults(case)))
    ]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_random_cases(server: Server, seed: int) -> None:
    differences = [
        line
        for case in random_cases(seed, campaign(1_000, 2_000))
        if (line := _difference(server, case, our_faults(case)))
    ]
    assert not differences, "\n".join(differences)


def test_defaults_agree(server: Server) -> None:
    """What the server answers to a valid create is what our defaulting makes of it, the server's own fields aside."""
    compared = 0
    for case in CASES:
        if case.faults or case.old is not None or case.ours_only or case.resource.kind not in DEFAULTED:
            continue
        answer = server.must("POST", f"{case.resource.path(_namespace(case))}?dryRun=All", case.new)
        ours = without_nulls(copy.deepcopy(case.new), case.resource.type)
        set_defaults(case.resource, ours, NOW)
        assert _spec(case, ours) == _spec(case, answer), case.name
        compared += 1
    assert compared > 100


def _namespace(case: Case) -> str | None:
    return NAMESPACE if case.resource.namespaced else None


def _spec(case: Case, document: Document) -> Any:
    """The spec without times and empty lists, and of a pod without what admission adds."""
    spec = {key: value for key, value in copy.deepcopy(document.get("spec", {})).items() if value != []}
    for taint in [
        spec.get("taint", {}),
        *(t for d in spec.get("devices", ()) if "name" in d for t in d.get("taints", ())),
    ]:
        taint.pop("timeAdded", None)
    if case.resource.kind == "Pod":
        spec = {key: value for key, value in spec.items() if key not in ADMITTED}
    return view(case.resource, {"spec": spec}).spec


def test_admin_access(server: Server) -> None:
    claim = edited(claim_document(), {"spec.devices.requests.0.exactly.adminAccess": True})
    case = Case("admin access", RESOURCE_CLAIMS, claim, frozenset())
    ours = check_admin_access(view(RESOURCE_CLAIMS, claim), {})
    assert their_verdict(server, case) == (422, frozenset((error.field, str(error.reason)) for error in ours))
    template = Case("admin access", RESOURCE_CLAIM_TEMPLATES, template_of(claim), frozenset())
    assert their_verdict(server, template) == their_verdict(server, case)


def test_admin_access_by_status(server: Server) -> None:
    result = {"request": "gpu", "driver": "a", "pool": "b", "device": "c", "adminAccess": True}
    new = {**claim_document(), "status": {"allocation": {"devices": {"results": [result]}}}}
    case = Case("admin access", RESOURCE_CLAIMS, new, frozenset(), old=claim_document(), status=True)
    ours = check_admin_access_status(view(RESOURCE_CLAIMS, new), view(RESOURCE_CLAIMS, claim_document()), {})
    assert their_verdict(server, case) == (422, frozenset((error.field, str(error.reason)) for error in ours))


def test_a_step_of_zero_still_breaks_the_real_one(server: Server) -> None:
    """The difference is documented; should a newer API server answer, the rule here can follow it."""
    [case] = [case for case in CASES if case.name.endswith("policy: range step zero")]
    with pytest.raises(http.client.RemoteDisconnected):
        their_verdict(server, case)
    assert our_faults(case) == case.faults
