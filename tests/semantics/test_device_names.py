from __future__ import annotations

import pytest

from dray.semantics.device_names import natural_order


@pytest.mark.parametrize(
    "names",
    [
        ["a9-1", "a10-1", "gpu", "gpu-2", "gpu-10"],
        # Every number of a name counts, not only the last one.
        ["gpu-2-mig-10", "gpu-10-mig-2", "gpu-10-mig-9"],
        ["kvm0", "kvm00", "kvm01", "kvm1", "kvm2"],
        ["2-a", "10-a", "a"],
        ["", "0", "gpu"],
        ["7" * 5000, "1" * 5001],
        ["gpu-9", "gpu-x", "gpu-\u0661"],
    ],
)
def test_numbers_in_names_are_numbers(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(backwards, key=natural_order) == names
