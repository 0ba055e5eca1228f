"""A new driver's files, as `dray new driver` writes them: a package that can be tested and run as it is."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import dray
from dray.api import names
from dray.errors import ConflictError, InvalidError
from dray.runtime.files.oserrors import from_os_error

EXAMPLE_DOMAIN: Final = "example.com"
_LONGEST: Final = 40
"""Of the first word: names of objects in the cluster are made of it."""
_is_short: Final = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?").fullmatch
_TOKEN: Final = re.compile(r"@([a-z]+)@")


@dataclass(frozen=True, slots=True)
class NewDriver:
    """All names that follow from one. `short` is the first word of the driver's name."""

    short: str
    domain: str

    @property
    def project(self) -> str:
        """The package for pip, its program, and the directory."""
        return f"{self.short}-driver"

    @property
    def module(self) -> str:
        """The package for Python."""
        return self.project.replace("-", "_")

    @property
    def words(self) -> Mapping[str, str]:
        """What stands for what in the files."""
        camel = "".join(part.capitalize() for part in self.short.split("-"))
        return {
            "short": self.short,
            "project": self.project,
            "module": self.module,
            "driver": f"{self.short}.{self.domain}",
            "resource": f"{self.domain}/{self.short}",
            "class": f"{camel}Driver",
            "config": f"{camel}Config",
            "version": dray.__version__,
        }


def parse_name(text: str) -> NewDriver:
    """`lamp`, or `lamp.acme.io` to say the domain too. InvalidError where it cannot be a driver's name."""
    short, dot, domain = text.partition(".")
    domain = domain if dot else EXAMPLE_DOMAIN
    if not _is_short(short) or len(short) > _LONGEST:
        raise InvalidError(
            f"NAME {text!r} must begin with a word of lower-case letters, digits and '-', "
            f"of {_LONGEST} at most, like lamp or lamp.acme.io",
            field="NAME",
        )
    if faults := [
        *names.driver_name(f"{short}.{domain}"),
        *names.dns_subdomain(domain),
        *names.extended_resource_name(f"{domain}/{short}"),
    ]:
        raise InvalidError(f"NAME {text!r}: {faults[0]}", field="NAME")
    return NewDriver(short, domain)


def render(new: NewDriver) -> dict[str, str]:
    """The text of each file, by its path below the directory."""
    module = f"src/{new.module}"
    places = {
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
        ".gitignore": "gitignore.txt",
        "Dockerfile": "Dockerfile.txt",
        "deploy.yaml": "deploy.yaml.txt",
        "pod.yaml": "pod.yaml.txt",
        f"{module}/__init__.py": "driver.py.txt",
        f"{module}/__main__.py": "main.py.txt",
        "tests/test_driver.py": "test_driver.py.txt",
    }
    texts = files(__name__) / "files"
    filled = {path: _fill(texts.joinpath(name).read_text(), new.words) for path, name in places.items()}
    return {**filled, f"{module}/py.typed": ""}


def _fill(text: str, words: Mapping[str, str]) -> str:
    return _TOKEN.sub(lambda token: words[token[1]], text)


def write(new: NewDriver, directory: Path) -> tuple[str, ...]:
    """Make the directory with all files in it, or nothing. The paths that were written, sorted.

    ConflictError where there is something already; other errors name the path.
    """
    if os.path.lexists(directory):
        raise ConflictError(f"{directory} exists already: choose another with --directory, or remove it")
    texts = render(new)
    try:
        _put_in_place(texts, directory)
    except OSError as error:
        raise from_os_error(error, "write", str(directory)) from error
    return tuple(sorted(texts))


def _put_in_place(texts: Mapping[str, str], directory: Path) -> None:
    """Beside it under another name first: nobody ever sees half of it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        for path, text in texts.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_text(text)
        draft.chmod(0o755)
        draft.rename(directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
