from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dray
from dray import errors
from dray.cli import exit_codes
from dray.cli.main import COMMANDS, exit_code_of, main, make_parser


def test_every_error_class_has_an_exit_code() -> None:
    assert set(exit_codes.EXIT_CODES) == {*errors.Error.__subclasses__(), errors.InvariantError}
    assert set(exit_codes.EXIT_CODES.values()) <= {1, 2, 3}


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert all(len(line) <= 90 for line in shown.splitlines())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_module_and_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert "--log-format" in capsys.readouterr().out


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """With those of words below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_one_voice(name: str) -> None:
    (command,) = (one for one in parsers(make_parser([name])) if one.prog == f"dray {name}")
    for parser in parsers(command):
        assert parser.description, parser.prog
        helps = {flag: str(one.help) for one in parser._actions for flag in one.option_strings}
        assert not [text for text in helps.values() if "several times" in text or "port 0: one" in text]
        assert f"(default {parser.get_default('output')})" in helps.get("-o", "(default None)")
        assert helps.get("--context") in (
            None,
            "which context of the kubeconfig (default: its current one)",
        )
        if "--context" in helps:
            assert helps["--kubeconfig"].startswith("a cluster's file (default: $KUBECONFIG, ")


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"dray {dray.__version__}\n"
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert project["version"] == dray.__version__


def test_no_command_shows_the_help_and_unknown_ones_are_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "on this machine:" in capsys.readouterr().out
    for word, meant in (("frobnicate", ""), ("explian", "did you mean 'explain'? ")):
        with pytest.raises(SystemExit) as stopped:
            main([word])
        assert stopped.value.code == 2
        assert capsys.readouterr().err == f"dray: no command {word!r}: {meant}`dray --help` lists them\n"


def test_errors_are_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert main(["devices", "--host-root", str(missing)]) in (1, 2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dray: ")
    assert shown.err.count("\n") == 1
    assert str(missing) in shown.err


def test_help_and_version_load_nothing_heavy() -> None:
    """What makes `dray --help` slow is what it imports; the time itself is in `dray bench`."""
    code = (
        "import sys; from dray.cli.main import make_parser; make_parser(['--help']).format_help();"
        "print([m for m in ('aiohttp', 'msgspec', 'grpclib', 'google', 'yaml', 'asyncio', 'prometheus_client') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_the_help_of_no_command_loads_anything_heavy() -> None:
    """What a command works with is loaded when it runs."""
    code = (
        "import sys; from dray.cli.main import COMMANDS, make_parser\n"
        "heavy = ('aiohttp', 'grpclib', 'google.protobuf', 'cryptography', 'yaml', 'prometheus_client', 'opentelemetry')\n"
        "for name in COMMANDS:\n"
        "    make_parser([name, '--help'])\n"
        "    found = [one for one in heavy if one in sys.modules]\n"
        "    if found: sys.exit(f'dray {name} --help loads {found}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_our_own_bug_shows_where_it_happened(capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> int:
        raise errors.InvariantError("two owners of one device")

    assert exit_code_of(breaks) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback") and "in breaks" in shown
    assert shown.endswith(
        "dray: internal error: two owners of one device; please report it with the lines above\n"
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m dray devices -o json | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_the_parser_of_one_command_is_complete() -> None:
    arguments = make_parser(["devices", "-o", "json"]).parse_args(["devices", "-o", "json"])
    assert arguments.command == "devices"
