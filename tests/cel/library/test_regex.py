from __future__ import annotations

import pytest

from dray.cel.faults import CelError
from tests.cel.library.answers import complaints, failure, program


def test_searches_answer_as_in_kubernetes() -> None:
    assert complaints("regex") == []


@pytest.mark.parametrize(
    "text", ["'a'.find('(')", "'a'.findAll('(', 2)", "'a'.find(dyn('('))", "'a'.matches(dyn('('))"]
)
def test_a_pattern_in_the_text_is_compiled_with_it(text: str) -> None:
    with pytest.raises(CelError) as caught:
        program(text)
    assert "error parsing regexp: missing closing ): `(`" in str(caught.value)


def test_a_pattern_that_comes_later_fails_later() -> None:
    assert failure("'a'.find(['('][0])") == "Illegal regex: error parsing regexp: missing closing ): `(`"
    assert failure("'a'.matches(['('][0])") == "error parsing regexp: missing closing ): `(`"
