"""Install the browser with apt, and axe-core from npm's registry into the cache. Neither node nor npm is needed."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

from dray.errors import DeniedError, ProtocolError, UnavailableError
from dray.testing import debian
from dray.testing.browser.parts import AXE_ADDRESS, AXE_SHA512, PACKAGE, Parts
from dray.testing.install_steps import Say, run_again

_AXE_MEMBER = "package/axe.min.js"
_TIMEOUT_S = 60.0
_MOST_BYTES = 20_000_000


def install(parts: Parts, say: Say) -> None:
    """Install what is missing. Interrupted, it is simply run again."""
    if parts.browser is None:
        install_browser(say)
    if not parts.axe.is_file():
        say(f"fetching {AXE_ADDRESS}")
        keep_axe(fetch(AXE_ADDRESS), parts.axe)


def install_browser(say: Say) -> None:
    """Debian's Chromium, from the package lists at hand, or from fresh ones."""
    debian.check_debian()
    if os.geteuid() != 0:
        raise DeniedError(
            f"Chromium is not installed. Run `sudo apt-get install {PACKAGE}`, then this again."
        )
    say(f"installing Debian's {PACKAGE} (about 100 MB)")
    command = ["apt-get", "-q", "install", "-y", "--no-install-recommends", PACKAGE, "fonts-dejavu-core"]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run_again(["apt-get", "-q", "update"], Path("/"), env)
    run_again(command, Path("/"), env)


def fetch(address: str) -> bytes:
    """The body of an answer; UnavailableError where there is none."""
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the address is ours
            body: bytes = answer.read(_MOST_BYTES)
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise UnavailableError(f"cannot fetch {address}: {error}. Is the network there?") from error
    return body


def keep_axe(archive: bytes, into: Path, sha512: str = AXE_SHA512) -> None:
    """Take the one file out of the package; ProtocolError where it is not the package that this version is known by."""
    if (found := hashlib.sha512(archive).hexdigest()) != sha512:
        raise ProtocolError(
            f"{AXE_ADDRESS} has the SHA-512 {found[:16]}... and not {sha512[:16]}...: not used."
        )
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as package:
        member = package.extractfile(_AXE_MEMBER)
        assert member is not None
        text = member.read()
    into.parent.mkdir(parents=True, exist_ok=True)
    unfinished = into.with_suffix(".unfinished")
    unfinished.write_bytes(text)
    unfinished.rename(into)
