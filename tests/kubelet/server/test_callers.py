from __future__ import annotations

import pytest

from dray.errors import DeniedError
from dray.kubelet.server.callers import Caller, caller_of


def test_a_certificate_names_the_user_and_its_groups() -> None:
    subject = (
        (("organizationName", "system:masters"),),
        (("organizationName", "ops"),),
        (("commonName", "server"),),
    )
    assert caller_of({"subject": subject}) == Caller("server", ("system:masters", "ops"))


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ((("organizationName", "ops"),),)}])
def test_one_that_names_nobody_is_refused(certificate: dict[str, object] | None) -> None:
    with pytest.raises(DeniedError) as caught:
        caller_of(certificate)
    assert not caught.value.authenticated
