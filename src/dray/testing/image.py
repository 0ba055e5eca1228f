"""Dray's container image without a registry: what the Containerfile makes, from Debian's packages, our wheel and the locked ones.

`python -m dray.testing.image FILE` writes it as an OCI archive for `ctr -n k8s.io images import`; with `--lock`, FILE is the
part of requirements.lock that the image needs. Run it in a checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dray.errors import NotFoundError
from dray.testing import debian
from dray.testing.image_layers import Image, write_image, write_layer
from dray.testing.install_steps import run_again, run_step
from dray.testing.kubernetes.node import go_architecture
from dray.testing.kubernetes.tools import cache_dir

REPOSITORY: Final = "localhost/dray"
USER: Final = 65532
HOME: Final = "opt/dray"
# Written apart: tests/house takes two plus signs for a possessive pattern.
PACKAGES: Final = ("libpython3-stdlib", f"libstdc{'+' * 2}6", "python3-minimal")
EXTRA: Final = ("nvidia-ml-py", "opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk")
"""Dray's optional packages: for GPUs, and for traces."""

# Needed to install packages, or never read.
_LEFT_OUT: Final = ("dpkg", "media-types", "readline-common", "tar")
_NOT_KEPT: Final = ("usr/share/doc", "usr/share/lintian", "usr/share/locale", "usr/share/man")
_FILES: Final = {
    "etc/passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\ndray:x:{USER}:{USER}:dray:/:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\ndray:x:{USER}:\n",
}
_LAUNCHER: Final = f"#!/{HOME}/bin/python\nimport sys\nfrom dray.__main__ import main\nsys.exit(main())\n"
_ENTRY: Final = re.compile(r"^([a-z0-9._-]+)==((?:.*\\\n)*.*\n)((?:    #.*\n)*)", re.MULTILINE)


def runtime_lock(lock: str) -> str:
    """The entries of a requirements.lock that Dray needs to run, and EXTRA; known by its notes on who needs what."""
    entries = {name: (text, _users(notes)) for name, text, notes in _ENTRY.findall(lock)}
    wanted = {"dray (pyproject.toml)", *EXTRA}
    while more := {name for name, (_, users) in entries.items() if users & wanted} - wanted:
        wanted |= more
    return "".join(f"{name}=={text}" for name, (text, _) in sorted(entries.items()) if name in wanted)


def _users(notes: str) -> set[str]:
    """Of `# via a` or `# via`, `#   a`, `#   b`: the names."""
    return {line.strip().lstrip("#").strip().removeprefix("via").strip() for line in notes.splitlines()}


def build_image(source: Path, archive: Path) -> str:
    """Build the image of the checkout `source` into `archive`; returns its name. All but Dray's own layer is kept."""
    version: str = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    base, packages = image_trees(source)
    python = _python(base)
    image = Image(
        name=f"{REPOSITORY}:{version}",
        architecture=go_architecture(),
        entrypoint=(f"/{HOME}/bin/dray",),
        user=f"{USER}:{USER}",
        env={"PATH": f"/{HOME}/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},
        labels={"org.opencontainers.image.title": "dray", "org.opencontainers.image.version": version},
    )
    with tempfile.TemporaryDirectory(prefix="dray-image-") as scratch:
        root, layers = Path(scratch) / "root", [Path(scratch) / f"{name}.tar" for name in "012"]
        _write_dray(source, root, python)
        for tree, layer in zip((base, packages, root), layers, strict=True):
            write_layer(tree, layer)
        write_image(image, layers, archive)
    return image.name


def image_trees(source: Path) -> tuple[Path, Path]:
    """What is kept of the image: Debian's files, and the packages that the checkout `source` needs."""
    lock = runtime_lock((source / "requirements.lock").read_text())
    base = _kept("base", (*PACKAGES, *_LEFT_OUT, *_FILES.values()), _write_base)
    python = _python(base)
    return base, _kept("packages", (python, lock), lambda root: _write_packages(root, lock, python))


def _kept(name: str, key: Sequence[str], write: Callable[[Path], None]) -> Path:
    """A tree of the cache, made where it is missing. It appears under its name when it is whole."""
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
    final = cache_dir() / f"image-{name}-{digest}"
    if not final.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"image-{name}-", dir=final.parent) as scratch:
            tree = Path(scratch) / "tree"
            tree.mkdir()
            write(tree)
            tree.rename(final)
    return final


def _write_base(root: Path) -> None:
    """Debian's Python and the libraries it needs; no shell, no package manager."""
    debian.check_debian()
    downloads = root.parent / "downloads"
    downloads.mkdir()
    debian.download_closure(PACKAGES, downloads)
    debian.unpack(downloads.glob("*.deb"), root, _LEFT_OUT)
    for name in _NOT_KEPT:
        shutil.rmtree(root / name, ignore_errors=True)
    for name, text in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    _compile(root, _python(root), f"usr/lib/python{_python(root)}")


def _python(base: Path) -> str:
    """The version of the image's Python, as in `3.11`."""
    found = sorted((base / "usr" / "bin").glob("python3.[0-9]*"))
    if len(found) != 1:
        raise NotFoundError(f"Debian's {PACKAGES[-1]} holds {len(found)} versions of Python instead of one.")
    return found[0].name.removeprefix("python")


def _write_packages(root: Path, lock: str, python: str) -> None:
    wanted = root.parent / "requirements.lock"
    wanted.write_text(lock)
    _install(["--require-hashes", "-r", str(wanted)], root, python)
    home = root / HOME
    (home / "bin").mkdir()
    (home / "bin" / "python").symlink_to("/usr/bin/python3")
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    )


def _write_dray(source: Path, root: Path, python: str) -> None:
    wheels = root.parent / "wheels"
    run_step(
        [*_PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source)], root.parent
    )
    _install([str(wheel) for wheel in wheels.glob("*.whl")], root, python)
    launcher = root / HOME / "bin" / "dray"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER)
    launcher.chmod(0o755)


_PIP: Final = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def _install(wanted: Sequence[str], root: Path, python: str) -> None:
    """Wheels alone, for the image's Python whatever this one is."""
    packages = f"{HOME}/lib/python{python}/site-packages"
    for_python = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    target = ["--no-deps", "--no-compile", "--target", str(root / packages)]
    run_again([*_PIP, "install", *for_python, *target, *wanted], root.parent)
    shutil.rmtree(root / packages / "bin", ignore_errors=True)
    _compile(root, python, packages)


def _compile(root: Path, python: str, packages: str) -> None:
    """Byte code that is not compared with its source: the image is read-only, and its files have no times."""
    if (
        python == f"{sys.version_info[0]}.{sys.version_info[1]}"
    ):  # else each start compiles, which takes a second
        said = ["-q", "-j", "1", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
        run_step([sys.executable, "-m", "compileall", *said, str(root / packages)], root.parent)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the image, or its lock file."""
    parser = argparse.ArgumentParser(prog="python -m dray.testing.image", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lock", action="store_true", help="write the lock file of the image instead")
    arguments = parser.parse_args(argv)
    if arguments.lock:
        arguments.file.write_text(runtime_lock(Path("requirements.lock").read_text()))
    else:
        build_image(Path.cwd(), arguments.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
