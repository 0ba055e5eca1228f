"""Hostile names of devices: whatever the hardware or a configuration calls them, they are shown, published and used as plain text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.kinds import RESOURCE_SLICES
from dray.cli.main import main
from dray.testing.host import Host, MdevType
from tests.campaign import LONG, campaign, seeded
from tests.hostile.socket_node import CONFIG, Json, SocketNode, socket_node

ODD = (
    *(
        "../../../etc/passwd",
        "/etc/x",
        "..",
        ".",
        "a/b",
        "a\nb",
        "a\r\nb",
        "\x1b[31mred\x1b[2J",
        "\x9b2J",
        "a\0b",
        "\a\b",
    ),
    *(
        "$(id)",
        "`id`",
        "; rm -rf /",
        "{{x}}",
        "%s%n",
        "- a: b",
        "&a [*a]",
        "!!python/object",
        "no",
        "1e3",
        "~",
        "<b>&",
    ),
    *(
        "ü" * 300,
        "\ufeffx",
        "\u202ertl",
        "'",
        '"',
        "\\",
        " ",
        "  a  ",
        "x" * 5000,
        "=",
        "k=v,l=w",
        "#",
        "\ud7ff",
    ),
)
UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa%04x"


def odd_names() -> list[str]:
    """All of them, and some that nobody has thought of."""
    chance = seeded(7301)
    drawn = [
        "".join(chr(chance.choice((chance.randrange(128), chance.randrange(0xD800)))) for _ in range(12))
        for _ in range(campaign(20, 3000))
    ]
    return [*ODD, *drawn]


def hostile_host(root: Path, names: list[str]) -> Host:
    """A host where each name is what a type of mediated devices is called, and what a USB device says of itself."""
    host = Host(root)
    for number, name in enumerate(names):
        card = host.pci(
            f"{number >> 4:04x}:06:{number & 15:02x}.0",
            vendor="10de",
            device="1eb8",
            driver="nvidia",
            iommu_group=number + 1,
        )
        parent = host.mdev_parent(card, {f"nvidia-{number}": MdevType(4, name, description=name)})
        parent.create(f"nvidia-{number}", UUID % number, iommu_group=10_000 + number)
        if number < 100:
            host.usb(
                f"{number + 1}-1", vendor="46f4", product="0001", serial=name, manufacturer=name, name=name
            )
    return host


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["devices", *words])
    said = capsys.readouterr()
    text = said.out + said.err
    assert not [sign for sign in text if not sign.isprintable() and sign != "\n"], repr(text)
    assert "Traceback" not in text
    return code, said.out


def test_names_of_hardware_never_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = odd_names()
    host = hostile_host(tmp_path / "host", names)
    flags = ("--host-root", str(host.root))
    code, table = shown(capsys, *flags)
    assert code == 0 and table.count("\nmdev ") == len(names)
    documents = [
        json.loads(shown(capsys, *flags, "-o", "json")[1]),
        yaml.safe_load(shown(capsys, *flags, "-o", "yaml")[1]),
    ]
    assert documents[0] == documents[1]
    mdevs = [one for one in documents[0]["devices"] if one["kind"] == "mdev"]
    assert len(mdevs) == len(names)
    dev = [path for one in documents[0]["devices"] for path in one["paths"]]
    assert all(path.startswith("/dev/") and ".." not in path for path in dev)


def test_names_of_a_configuration_are_refused_or_plain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = hostile_host(tmp_path / "host", ["a"])
    file = tmp_path / "config.json"
    for number, name in enumerate(odd_names()):
        places: tuple[Any, ...] = (
            {"dray": {"sim": {"devices": [{"name": name, "count": 1, "resourceName": "example.com/x"}]}}},
            {"dray": {"sim": {"devices": [{"name": "x", "count": 1, "resourceName": name}]}}},
            {
                "permittedHostDevices": {
                    "mediatedDevices": [{"mdevNameSelector": name, "resourceName": "a.b/c"}]
                }
            },
            {
                "permittedHostDevices": {
                    "pciHostDevices": [{"pciVendorSelector": name, "resourceName": "a.b/c"}]
                }
            },
            {
                "permittedHostDevices": {
                    "usb": [{"resourceName": name, "selectors": [{"vendor": "1", "product": name}]}]
                }
            },
            {"dray": {"domain": name}},
            {"dray": {"doors": {name: "dra"}}},
        )
        for config in places if LONG else places[number % len(places) :][:1]:
            file.write_text(json.dumps(config))
            code, _ = shown(capsys, "--host-root", str(host.root), "--config", str(file))
            assert code in (0, 2), (name, config)


async def test_an_agent_publishes_them_as_what_a_server_takes(tmp_path: Path) -> None:
    """Both doors, with names that a configuration may select by."""
    names = [name for name in ODD if name.strip() == name and name.isprintable() and len(name) <= 300]
    (tmp_path / "node").mkdir()
    async with socket_node(tmp_path / "node", has_agent=False) as node:
        hostile_host(node.root / "host", names)
        permitted = [
            {"mdevNameSelector": name, "resourceName": f"odd.example/{number}"}
            for number, name in enumerate(names)
        ]
        config: Json = {**CONFIG, "permittedHostDevices": {"mediatedDevices": permitted}}
        await node.start_agent(config)
        await node.wait(lambda: mdevs(node) == len(names), f"slices of {len(names)} devices: {mdevs(node)}")
        for program in node.programs:
            program.check()
        assert not node.server.refused
    assert [path.name for path in tmp_path.iterdir()] == ["node"]


def mdevs(node: SocketNode) -> int:
    """How many are in slices."""
    slices = [one for (kind, _, _), one in node.server.objects.items() if kind == RESOURCE_SLICES.plural]
    return sum(
        len(one["spec"].get("devices") or ()) for one in slices if one["spec"]["driver"].startswith("mdev")
    )
