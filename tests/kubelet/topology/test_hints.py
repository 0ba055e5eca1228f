from __future__ import annotations

import pytest

from dray.kubelet.topology.hints import ids_of, mask_of


@pytest.mark.parametrize(
    ("ids", "mask"), [((), 0), ((0,), 1), ((3, 1), 0b1010), ((63, 0), 2**63 + 1), ((2, 2), 4)]
)
def test_a_mask_has_one_bit_a_node(ids: tuple[int, ...], mask: int) -> None:
    assert mask_of(ids) == mask
    assert tuple(ids_of(mask)) == tuple(sorted(set(ids)))
