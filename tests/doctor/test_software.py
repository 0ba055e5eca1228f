from __future__ import annotations

from msgspec.structs import replace

from dray.doctor.software import check_software, look_at_software
from tests.doctor.findings_text import text_of, told


def test_this_installation_is_good_enough_to_run_its_tests() -> None:
    found = told(check_software(look_at_software(), has_nvidia=False))
    assert {("python", "ok"), ("packages", "ok")} <= found
    assert not any(level == "fault" for _, level in found)


def test_what_is_too_old_missing_or_too_few() -> None:
    facts = look_at_software()
    bare = {name: "" if name in ("h2", "nvidia-ml-py") else "1" for name in facts.packages}
    poor = replace(facts, python=(3, 9, 1), packages=bare, files=(256, 1024))
    findings = list(check_software(poor, has_nvidia=True))
    assert {
        ("python", "fault"),
        ("packages", "fault"),
        ("extra-nvidia", "warning"),
        ("extra-otel", "ok"),
        ("open-files", "warning"),
    } == told(findings)
    assert "h2" in text_of(findings, "packages")
    assert "ulimit -n 1024" in text_of(findings, "open-files")
    assert ("extra-nvidia", "note") in told(check_software(poor, has_nvidia=False))


def test_traces_that_are_wanted_need_their_extra() -> None:
    facts = replace(look_at_software(), packages={}, wants_traces=True)
    assert ("extra-otel", "warning") in told(check_software(facts, has_nvidia=False))
