from __future__ import annotations

from dray.cel.library.semver import parse_semver
from tests.cel.library.answers import complaints


def test_versions_answer_as_in_kubernetes() -> None:
    assert complaints("semver") == []


def test_build_metadata_takes_no_part_in_equality() -> None:
    assert parse_semver("1.2.3+a") == parse_semver("1.2.3+b")
    assert parse_semver("v1", normalize=True) == parse_semver("1.0.0")
