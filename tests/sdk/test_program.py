from __future__ import annotations

from pathlib import Path

import pytest

from dray.sdk import run
from dray.sdk.program import _options, _parser
from tests.sdk.lamps import Lamps, PlainLamps, build_machine


def test_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = build_machine(tmp_path)
    (root / "dev/lamp1").write_text("flickers")
    run(Lamps(), ["--list", "--host-root", str(root)])
    assert capsys.readouterr().out.splitlines() == [
        "DEVICE  HEALTH    ATTRIBUTES",
        "lamp0   healthy   model=x1",
        "lamp1   flickers  model=x1",
    ]


class NeedsMore(PlainLamps):
    contract = 2


@pytest.mark.parametrize(
    ("driver", "words", "text"),
    [
        (NeedsMore(), [], "lamp.example.com: NeedsMore.contract: the driver needs contract 2"),
        (PlainLamps(), ["--list", "--host-root", "/no/such"], "--host-root '/no/such' does not exist"),
        (PlainLamps(), ["--metrics-address", "here"], "--metrics-address 'here' must be HOST:PORT"),
        (PlainLamps(), ["--kubeconfig", "none", "--node-name", "Not A Name"], "--node-name"),
    ],
)
def test_bad_input_is_one_line(
    driver: PlainLamps, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(driver, words)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert text in err and err.startswith("lamp.example.com: ") and err.count("\n") == 1


def test_a_driver_that_fails_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(Lamps("discover"), ["--list", "--host-root", str(tmp_path)])
    assert caught.value.code == 1
    assert "discover failed: ValueError: the bulb is loose" in capsys.readouterr().err.splitlines()[-1]


def test_places_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "KUBELET_DIR": "/k",
        "DEVICE_PLUGIN_DIR": "/d",
        "CDI_DIR": "/c",
        "NODE_NAME": "node-1",
        "POD_UID": "uid",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    driver = PlainLamps()
    options = _options(driver, _parser(driver).parse_args([]))
    assert (options.kubelet_dir, options.device_plugin_dir, options.cdi_dir) == (
        Path("/k"),
        Path("/d"),
        Path("/c"),
    )
    assert (options.node_name, options.instance, options.metrics) == ("node-1", "uid", None)
    assert options.state_dir == Path("/k/plugins/lamp.example.com/state")
    given = _parser(driver).parse_args(["--kubelet-dir", "/x", "--metrics-address", "[::1]:0"])
    options = _options(driver, given)
    assert (options.state_dir, options.metrics) == (Path("/x/plugins/lamp.example.com/state"), ("::1", 0))


def test_doors_that_the_driver_has() -> None:
    class OnlyClaims(PlainLamps):
        resource = ""

    assert _parser(PlainLamps()).parse_args([]).doors == "both"
    assert _parser(OnlyClaims()).parse_args([]).doors == "dra"
    with pytest.raises(SystemExit):
        _parser(OnlyClaims()).parse_args(["--doors", "plugin"])
