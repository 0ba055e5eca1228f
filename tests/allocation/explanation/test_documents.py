"""What a program reads of an explanation."""

from __future__ import annotations

from typing import Any

from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.documents import reasons_document
from dray.allocation.explanation.explain import explain_workload
from tests.allocation.dumps import claims, situation, slices
from tests.allocation.world import claim, device, piece, request


def misses(driver: str, selector: str) -> list[dict[str, Any]]:
    """The devices that come closest to a request of class-a with this selector; there is one device."""
    made = device("d", attributes={"model": {"string": "A"}})
    one = situation(slices(piece(made, driver=driver)), claims(claim(request(1, selector))))
    found = explain_workload(one, workloads_of(one.cluster)[0], one.cluster.nodes)
    document = reasons_document(found.reasons, found.profile, str(found.tier))
    nearest: list[dict[str, Any]] = document["nearestMisses"]
    return nearest


def test_whose_selector_is_false() -> None:
    driver, model = "device.driver", 'device.attributes["driver-a"].model'
    of_class = {
        "of": "class",
        "selector": 0,
        "text": f'{driver} == "driver-a"',
        "saw": {driver: '"driver-b"'},
    }
    (miss,) = misses("driver-b", "true")
    assert (miss["device"], miss["falseParts"]) == ("driver-b/pool-1/d", [of_class])
    (miss,) = misses("driver-a", f'true && {model} == "B"')
    own = {"of": "request", "selector": 0, "text": f'{model} == "B"', "saw": {model: '"A"'}}
    assert (miss["device"], miss["falseParts"]) == ("driver-a/pool-1/d", [own])
    (miss,) = misses("driver-b", f'{driver} == "x"')
    own = {"of": "request", "selector": 0, "text": f'{driver} == "x"', "saw": {driver: '"driver-b"'}}
    assert miss["falseParts"] == [of_class, own]
