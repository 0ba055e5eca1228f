from __future__ import annotations

from dray.api.codec import to_raw, view
from dray.api.scheduling import POD_GROUPS, PodGroup

RAW = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": [
            {"name": "a", "resourceClaimName": "shared"},
            {"name": "b", "resourceClaimTemplateName": "t"},
        ],
    },
    "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "g-b-xxxxx"}]},
}
GROUP = view(RAW, PodGroup)


def test_a_group_goes_through_its_view_unchanged() -> None:
    assert to_raw(GROUP) == RAW
    empty = PodGroup()
    assert (empty.api_version, empty.kind) == (POD_GROUPS.api_version, POD_GROUPS.kind)
    assert POD_GROUPS.path("default", "g", "status") == (
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/g/status"
    )
