"""`dray cdi`: what both actions print, where, and their exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dray.cli.main import main

GOOD = """\
cdiVersion: 0.5.0
kind: example.com/gpu
devices:
- name: 0
  containerEdits: {env: [GPU=0], deviceNodes: [{path: /dev/gpu, hostPath: /dev/null}]}
- name: all
  containerEdits: {env: [GPU=all]}
"""
BAD = """\
cdiVersion: 0.3.0
kind: example.com/gpu
devices:
- name: 0
  containerEdits: {envs: [GPU=0]}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "cdi"
    made.mkdir()
    (made / "gpu.yaml").write_text(GOOD)
    return made


def test_good_files_are_listed(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cdi", "validate", str(directory)]) == 0
    name = str(directory / "gpu.yaml")
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        f"{'FILE'.ljust(len(name))}   KIND              CDI     DEVICES",
        f"{name}   example.com/gpu   0.5.0   0, all",
    ]
    assert shown.err == ""


def test_every_fault_of_every_file_is_told(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "bad.json").write_text(BAD)
    (directory / "worse.json").write_text("{")
    assert main(["cdi", "validate", str(directory), str(directory / "none.yaml")]) == 2
    shown = capsys.readouterr()
    assert "gpu.yaml" in shown.out and "bad.json" not in shown.out
    assert shown.err.replace(f"{directory}/", "").splitlines() == [
        "dray: 4 faults:",
        "  bad.json:1: cdiVersion: must be 0.5.0 or newer: the name of a device starts with a digit",
        '  bad.json:5: devices[0].containerEdits.envs: unknown field: did you mean "env"?',
        "  worse.json:2:1: did not find expected node content",
        "  cannot read 'none.yaml': it does not exist",
    ]


def test_one_fault_is_one_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "gpu.yaml").write_text(BAD.replace("0.3.0", "1.0.0"))
    assert main(["cdi", "validate", str(directory / "gpu.yaml")]) == 2
    assert capsys.readouterr().err == (
        f'dray: {directory}/gpu.yaml:5: devices[0].containerEdits.envs: unknown field: did you mean "env"?\n'
    )


def test_conflicts_in_a_directory(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "more.yaml").write_text(GOOD.replace("name: all", "name: some"))
    files = [str(directory / name) for name in ("gpu.yaml", "more.yaml")]
    assert main(["cdi", "validate", str(directory)]) == 2
    expected = f"dray: {directory}: example.com/gpu=0 is unusable: defined by {files[0]} and by {files[1]}\n"
    assert capsys.readouterr().err == expected
    assert main(["cdi", "validate", *files]) == 0


def test_notes_are_no_faults(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "gpu.yaml").write_text(GOOD.replace("path: /dev/gpu", "path: gpu") + "---\nmore\n")
    (tmp_path / "x.conf").write_text(GOOD)
    (tmp_path / "empty").mkdir()
    assert main(["cdi", "validate", str(directory), str(tmp_path / "x.conf"), str(tmp_path / "empty")]) == 0
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines() == [
        "dray: note: cdi/gpu.yaml:5: devices[0].containerEdits.deviceNodes[0].path: should be an absolute path, not 'gpu'",
        "dray: note: cdi/gpu.yaml:8: another document starts here: runtimes read only the first of a file",
        "dray: note: x.conf: runtimes read only files that end in .json or .yaml",
        "dray: note: empty: no file in it ends in .json or .yaml",
    ]


def test_validate_for_programs(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "bad.json").write_text(BAD)
    assert main(["cdi", "validate", "-o", "json", str(directory)]) == 2
    shown = capsys.readouterr()
    bad, good = json.loads(shown.out)["files"]
    assert good == {
        "file": str(directory / "gpu.yaml"),
        "valid": True,
        "kind": "example.com/gpu",
        "cdiVersion": "0.5.0",
        "minimumVersion": "0.5.0",
        "devices": ["0", "all"],
        "faults": [],
        "notes": [],
    }
    assert [(fault["line"], fault["field"]) for fault in bad["faults"]] == [
        (1, "cdiVersion"),
        (5, "devices[0].containerEdits.envs"),
    ]
    assert shown.err == ""


def test_validate_reads_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert main(["cdi", "validate", "-"]) == 2
    assert "<stdin>:5: devices[0].containerEdits.envs" in capsys.readouterr().err


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text('{"ociVersion": "1.2.0", "process": {"env": ["A=1"]}, "x": 5}')
    return str(path)


def test_inject_prints_the_edited_spec(
    directory: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["cdi", "inject", "--cdi-dir", str(directory), "--device", "example.com/gpu=0", config]
    assert main(command) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["process"], made["x"]) == ({"env": ["A=1", "GPU=0"]}, 5)
    assert made["linux"]["devices"][0]["path"] == "/dev/gpu"
    rule = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
    assert made["linux"]["resources"]["devices"] == [rule]
    assert main([*command, "-o", "yaml"]) == 0
    assert "- GPU=0\n" in capsys.readouterr().out


def test_inject_takes_devices_after_spec(
    directory: Path, config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["example.com/gpu=0", "example.com/gpu=all"]
    assert main(["cdi", "inject", "--cdi-dir", str(directory), "--spec", config, *names]) == 0
    after = capsys.readouterr().out
    assert json.loads(after)["process"]["env"] == ["A=1", "GPU=all"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(config).read_bytes())))
    flags = [word for name in names for word in ("--device", name)]
    assert main(["cdi", "inject", "--cdi-dir", str(directory), *flags]) == 0
    assert capsys.readouterr().out == after


def test_unknown_devices_are_all_named(
    directory: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "bad.json").write_text(BAD.replace("name: 0", "name: 7"))
    command = ["cdi", "inject", "--cdi-dir", str(directory), "--spec", config]
    assert main([*command, "example.com/gpu=x", "example.com/gpu=0", "example.com/gpu=7"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.replace(f"{directory}/", "").splitlines()
    assert lines[0].startswith("dray: note: does not count: bad.json:1: cdiVersion: must be 0.5.0")
    assert lines[1:3] == ["dray: 2 faults:", "  example.com/gpu=x: no such device of this kind"]
    assert lines[3].startswith("  example.com/gpu=7: its file is broken: bad.json:1: ")


def test_a_node_that_the_host_does_not_have(
    directory: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "gpu.yaml").write_text(GOOD.replace("/dev/null", "/dev/none-such"))
    assert main(["cdi", "inject", "--cdi-dir", str(directory), "--spec", config, "example.com/gpu=0"]) == 1
    expected = "dray: cannot inject CDI device nodes: /dev/none-such does not exist on the host\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["config.json"], "dray: name a device, as --device example.com/gpu=0\n"),
        (["a", "b", "--device", "x"], "dray: one OCI spec, not a, b: name devices with --device\n"),
        (["--device", "a/b=c", "/dev/null"], "dray: /dev/null: is not an OCI runtime spec: one map is\n"),
        (["--device", "a/b=c", "none-such"], "dray: cannot read none-such: No such file or directory\n"),
    ],
)
def test_bad_input(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cdi", "inject", *words]) == 2
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("action", ["validate", "inject"])
def test_help_of_the_actions(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["cdi", action, "--help"])
    assert stopped.value.code == 0
    assert f"usage: dray cdi {action}" in capsys.readouterr().out
