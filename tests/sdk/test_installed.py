from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dray.errors import HardwareError, InvalidError
from dray.sdk.installed import GROUP, installed_drivers, installed_validators

HERE = "tests.sdk.installed_lamps"


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"{HERE}:{value}" if value.isidentifier() else value, GROUP)


def test_a_class_and_an_instance() -> None:
    found = installed_drivers(found=[point("b", "Floor"), point("a", "desk")])
    assert [kind.name for kind in found.kinds] == ["desk.example.com", "floor.example.com"]
    assert [kind.driver.kind for kind in found.kinds] == ["desk.example.com", "floor.example.com"]
    assert found.kinds[0].resources == ("example.com/desk",)
    assert found.broken == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Missing", "AttributeError"),
        ("no_such_package:Driver", "ModuleNotFoundError"),
        ("Fails", "RuntimeError: no bulb"),
        ("TooNew", "needs contract 99"),
        ("NoName", "NoName.name"),
        ("BadConfig", "NameError: name 'Intt'"),
        ("NOTHING", "not an instance of dray.sdk.Driver"),
        ("tests.sdk.exits_at_import:Driver", "SystemExit"),
    ],
)
def test_a_broken_one_is_told_and_the_others_serve(value: str, text: str) -> None:
    found = installed_drivers(found=[point("a", value), point("b", "Floor")])
    assert [kind.name for kind in found.kinds] == ["floor.example.com"]
    assert len(found.broken) == 1 and found.broken[0].startswith("a (") and text in found.broken[0]


def test_who_checks_parameters() -> None:
    found = installed_validators([point("a", "Dimmed"), point("b", "Floor"), point("c", "Missing")])
    assert sorted(found) == ["dimmed.example.com", "floor.example.com"]
    found["dimmed.example.com"]({"level": 3})
    with pytest.raises(InvalidError, match="level"):
        found["dimmed.example.com"]({"level": "high"})
    with pytest.raises(HardwareError, match="config failed: KeyError"):
        found["dimmed.example.com"]({"level": 13})
    with pytest.raises(InvalidError, match=r"floor\.example\.com take no parameters"):
        found["floor.example.com"]({})


def test_names_do_not_collide() -> None:
    twice = installed_drivers(found=[point("a", "desk"), point("b", "desk")])
    assert len(twice.kinds) == 1
    assert "desk.example.com belongs to a (" in twice.broken[0]
    resource = installed_drivers(found=[point("a", "desk"), point("b", "SameResource")])
    assert "example.com/desk belongs to a (" in resource.broken[0]
    taken = installed_drivers(["example.com/desk"], found=[point("a", "desk")])
    assert taken.kinds == () and "belongs to Dray itself" in taken.broken[0]


def test_a_package_that_is_really_installed(tmp_path: Path) -> None:
    """As pip lays it out: a module and its metadata on the path."""
    (tmp_path / "bulb.py").write_text(
        "from dray.sdk import Driver\n"
        "class Bulbs(Driver):\n"
        "    name = 'bulb.example.com'\n"
        "    def discover(self, host):\n"
        "        return []\n"
    )
    metadata = tmp_path / "bulb-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bulb\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dray.drivers]\nbulb = bulb:Bulbs\nlost = bulb:Lost\n")
    code = (
        "from dray.sdk.installed import installed_drivers as f; i = f(); print(i.kinds[0].name, i.broken[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("bulb.example.com lost (bulb:Lost of bulb): ")
