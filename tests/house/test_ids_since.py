"""What `python -m tests.ids_since` says about two lists of tests."""

from __future__ import annotations

from tests.ids_since import compare, read

BEFORE = read("""\
tests/a/test_x.py::test_stays
tests/a/test_x.py::test_cases[1]
tests/a/test_x.py::test_cases[2]
tests/a/test_x.py::test_moved
tests/a/test_x.py::test_an_old_name
tests/a/test_x.py::test_lost[a]
tests/a/test_x.py::test_lost[b]
tests/a/test_y.py::test_unseen

7 tests collected in 0.1s
""")
NOW = read("""\
tests/a/test_x.py::test_stays
tests/a/test_x.py::test_cases[2]
tests/a/test_x.py::test_cases[3]
tests/a/test_x.py::test_an_older_name
tests/b/test_z.py::test_moved
tests/b/test_z.py::test_of_something_else
ERROR tests/a/test_y.py - ModuleNotFoundError: No module named 'playwright'
""")


def test_what_is_gone_new_and_renamed() -> None:
    assert compare(BEFORE, NOW).splitlines() == [
        "7 tests before, 6 now; 5 gone, 4 new",
        "cannot be imported here: tests/a/test_y.py",
        "gone: tests/a/test_x.py::test_cases [1 of 2 cases]: [1]",
        "gone: tests/a/test_x.py::test_lost [all 2 cases]",
        "new: tests/a/test_x.py::test_cases [1 of 2 cases]: [3]",
        "new: tests/b/test_z.py::test_of_something_else",
        "renamed? tests/a/test_x.py::test_an_old_name -> tests/a/test_x.py::test_an_older_name",
        "renamed? tests/a/test_x.py::test_moved -> tests/b/test_z.py::test_moved",
    ]
