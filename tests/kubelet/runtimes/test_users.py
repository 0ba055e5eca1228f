from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import Security
from dray.kubelet.runtimes.users import Owner, find_owner

PASSWD = "root:x:0:0:root:/root:/bin/sh\n# comment\nbroken\nann:x:1000:1001::/home/ann:/bin/sh\n7:x:8:9::/:/bin/sh\n"
GROUP = "root:x:0:\nann:x:1001:\naudio:x:29:bob,ann\n"


@pytest.mark.parametrize(
    ("security", "user", "expected"),
    [
        (Security(), "", Owner(0, 0, (0,))),
        (Security(), "ann", Owner(1000, 1001, (29, 1001))),
        (Security(), "1000", Owner(1000, 1001, (29, 1001))),
        (Security(), "ann:audio", Owner(1000, 29, (29,))),
        (Security(), "55:66", Owner(55, 66, (66,))),
        (Security(), "7", Owner(7, 0, (0,))),
        (Security(user=7), "", Owner(7, 0, (0,))),
        (Security(), "01000", Owner(1000, 1001, (29, 1001))),
        (Security(), "ann:29", Owner(1000, 29, (29,))),
        (Security(user=5), "ann:audio", Owner(5, 0, (0,))),
        (Security(user=1000, group=3, supplemental_groups=(4,)), "", Owner(1000, 3, (3, 4, 29))),
        (Security(group=3), "ann", Owner(1000, 3, (3, 29))),
    ],
)
def test_find_owner(security: Security, user: str, expected: Owner) -> None:
    assert find_owner(security, user, PASSWD, GROUP) == expected


@pytest.mark.parametrize(("user", "text"), [("bob", "no user 'bob'"), ("ann:crew", "no group 'crew'")])
def test_a_name_that_the_image_does_not_have(user: str, text: str) -> None:
    with pytest.raises(InvalidError, match=text):
        find_owner(Security(), user, PASSWD, GROUP)


def test_without_files_numbers_do() -> None:
    assert find_owner(Security(), "12") == Owner(12, 0, (0,))
