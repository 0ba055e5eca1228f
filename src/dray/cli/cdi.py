"""`dray cdi`: check CDI spec files, and see what CDI devices do to a container's OCI spec."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.manifests import read_text, say_notes
from dray.cli.tables import columns
from dray.errors import Error, InvalidError

if TYPE_CHECKING:
    from dray.cdi.spec import Fault, SpecFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare both actions and their flags."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    text = "Check CDI spec files: every fault with its file, line and field"
    validate = actions.add_parser("validate", help=text, description=f"{text}.")
    validate.add_argument(
        "files",
        nargs="+",
        metavar="FILE|DIR",
        help="spec files (- for stdin) or directories of them; later directories override earlier ones",
    )
    validate.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )
    _add_inject(actions)


def _add_inject(actions: Any) -> None:
    text = "Put CDI devices into an OCI runtime spec and print it, as a container runtime would"
    inject = actions.add_parser("inject", help=text, description=f"{text}.")
    inject.add_argument(
        "words",
        nargs="*",
        metavar="OCI-SPEC",
        help="the container's config.json (JSON or YAML; - or nothing for stdin); after --spec, devices",
    )
    inject.add_argument(
        "--spec", metavar="OCI-SPEC", help="the same: then devices may be named without --device"
    )
    inject.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="a device, such as example.com/gpu=0; may be repeated",
    )
    inject.add_argument(
        "--cdi-dir",
        action="append",
        type=Path,
        default=[],
        metavar="D",
        help="where CDI spec files are; may be repeated, later ones win (default /etc/cdi, /var/run/cdi)",
    )
    inject.add_argument(
        "-o", "--output", choices=["json", "yaml"], default="json", help="how to print it (default json)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 done; 1 where the host has not the device nodes; 2 where a file has faults or a device is unknown."""
    return _inject(arguments) if arguments.action == "inject" else _validate(arguments)


def _inject(arguments: argparse.Namespace) -> int:
    from dray.api.codec import dump_yaml
    from dray.cdi.host import host_stat
    from dray.cdi.inject import inject
    from dray.cdi.registry import DIRECTORIES, read_registry

    source, devices = _oci_and_devices(arguments)
    oci = _read_oci(source)
    registry = read_registry(arguments.cdi_dir or DIRECTORIES)
    say_notes(f"does not count: {broken.error}" for broken in registry.broken)
    edited = inject(oci, registry, devices, host_stat)
    if arguments.output == "yaml":
        print(dump_yaml(edited), end="")
    else:
        import json

        print(json.dumps(edited, indent=2, ensure_ascii=False))
    return exit_codes.DONE


def _oci_and_devices(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    words = list(arguments.words)
    source = arguments.spec
    if source is None:
        if len(words) > 1:
            raise InvalidError(
                f"one OCI spec, not {', '.join(words)}: name devices with --device", field="OCI-SPEC"
            )
        source = words.pop() if words else "-"
    devices = [*arguments.device, *words]
    if not devices:
        raise InvalidError("name a device, as --device example.com/gpu=0", field="--device")
    if source == "-" and sys.stdin.isatty():
        raise InvalidError("give the container's OCI spec as a file or on stdin", field="OCI-SPEC")
    return source, devices


def _read_oci(name: str) -> dict[str, Any]:
    from dray.api.codec import load_values

    shown = "<stdin>" if name == "-" else name
    documents = load_values(read_text(name), shown)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InvalidError(f"{shown}: is not an OCI runtime spec: one map is", field=shown)
    return documents[0].value


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that was looked at: what was read, None where it is no YAML, and all its faults."""

    name: str
    priority: int
    read: SpecFile | None
    faults: tuple[Fault, ...] = ()


def _validate(arguments: argparse.Namespace) -> int:
    checked = [
        _check(name, place) for place, argument in enumerate(arguments.files) for name in _names(argument)
    ]
    conflicts = _conflicts(checked)
    faults = (*(fault for one in checked for fault in one.faults), *conflicts)
    if arguments.output == "json":
        import json

        print(json.dumps(as_document(checked, conflicts), indent=2, ensure_ascii=False))
        return exit_codes.BAD_INPUT if faults else exit_codes.DONE
    _say(arguments.files, checked)
    if faults:
        text = str(faults[0]) if len(faults) == 1 else f"{len(faults)} faults"
        raise InvalidError(text, field=faults[0].field, causes=faults)
    return exit_codes.DONE


def _say(files: Sequence[str], checked: Sequence[Checked]) -> None:
    from dray.cdi.validate import file_advice

    good = [(one.name, one.read) for one in checked if one.read is not None and not one.faults]
    if good:
        rows = [("FILE", "KIND", "CDI", "DEVICES"), *(_row(name, read) for name, read in good)]
        print("\n".join(columns(rows)))
    say_notes(str(note) for _, read in good for note in file_advice(read))
    say_notes(_on_arguments(files, checked))


def _names(argument: str) -> list[str]:
    from dray.cdi.registry import spec_files

    if argument != "-" and Path(argument).is_dir():
        return [str(path) for path in spec_files(Path(argument))]
    return [argument]


def _check(name: str, priority: int) -> Checked:
    from dray.cdi.registry import read_file
    from dray.cdi.spec import Fault, read_spec
    from dray.cdi.validate import file_faults

    shown = "<stdin>" if name == "-" else name
    try:
        read = read_spec(read_text(name) if name == "-" else read_file(Path(name)), shown)
    except Error as error:
        place, _, text = str(error).partition(": ")
        return Checked(shown, priority, None, (Fault(place, 0, "", text),))
    return Checked(shown, priority, read, file_faults(read))


def _conflicts(checked: Sequence[Checked]) -> tuple[Fault, ...]:
    """Devices that two files of one directory define. Files that are named one by one are not in conflict."""
    from dray.cdi.registry import LoadedFile, build_registry
    from dray.cdi.spec import Fault

    registry = build_registry(
        LoadedFile(Path(one.name), one.priority, one.read.spec)
        for one in checked
        if one.read is not None and not one.faults
    )
    return tuple(
        Fault(
            str(paths[0].parent), 0, "", f"{name} is unusable: defined by {' and by '.join(map(str, paths))}"
        )
        for name, paths in registry.conflicts.items()
    )


def _on_arguments(arguments: Sequence[str], checked: Sequence[Checked]) -> Iterator[str]:
    from dray.cdi.registry import ENDINGS

    for argument in arguments:
        if argument == "-":
            continue
        if Path(argument).is_dir():
            if not any(Path(one.name).parent == Path(argument) for one in checked):
                yield f"{argument}: no file in it ends in {' or '.join(ENDINGS)}"
        elif not argument.endswith(ENDINGS):
            yield f"{argument}: runtimes read only files that end in {' or '.join(ENDINGS)}"


def _row(name: str, read: SpecFile) -> tuple[str, str, str, str]:
    spec = read.spec
    names = [device.name for device in spec.devices]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return name, spec.kind, spec.version, shown


def as_document(checked: Sequence[Checked], conflicts: Sequence[Fault]) -> dict[str, Any]:
    """The same for programs. Keys stay; others may join."""
    return {
        "files": [_file_document(one) for one in checked],
        "conflicts": [fault.message for fault in conflicts],
    }


def _file_document(one: Checked) -> dict[str, Any]:
    from dray.cdi.validate import file_advice
    from dray.cdi.versions import minimum_version

    spec = one.read.spec if one.read is not None else None
    notes = file_advice(one.read) if one.read is not None and not one.faults else ()
    return {
        "file": one.name,
        "valid": not one.faults,
        "kind": spec.kind if spec else None,
        "cdiVersion": spec.version if spec else None,
        "minimumVersion": minimum_version(spec) if spec else None,
        "devices": [device.name for device in spec.devices] if spec else [],
        "faults": [_fault_document(fault) for fault in one.faults],
        "notes": [_fault_document(note) for note in notes],
    }


def _fault_document(fault: Fault) -> dict[str, Any]:
    return {"line": fault.line or None, "field": fault.field, "message": fault.message}
