from __future__ import annotations

import pytest

from dray.api.quantity import Quantity
from dray.cel.faults import EvaluationError
from dray.cel.library.quantity import QuantityValue
from tests.cel.library.answers import complaints, evaluate


def test_quantities_answer_as_in_kubernetes() -> None:
    assert complaints("quantity") == []


def test_equal_by_amount() -> None:
    assert QuantityValue(Quantity("1Gi")) == QuantityValue(Quantity("1024Mi"))
    assert hash(QuantityValue(Quantity("1"))) == hash(QuantityValue(Quantity("1000m")))


def test_a_sum_is_refused_on_the_right_of_equals() -> None:
    """As Kubernetes does, whose sums are of another Go type; on the left it is fine."""
    assert evaluate("quantity('1').add(quantity('1')) == quantity('2')") is True
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate("quantity('2') == quantity('1').add(quantity('1'))")
