"""The pinned packages: read, audited against an index on a real socket, and listed."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deploy.supply.audit import audit
from deploy.supply.locked import LOCK, LOCKS, OURSELVES, extras, needed_for, read_lock
from deploy.supply.sbom import sbom
from tests.waiting import PATIENCE

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
TEXT = f"""# made by a program
one[speed]==1.0 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
    # via dray (pyproject.toml)
two_parts==2.0 ; python_version < '3.12' \\
    --hash=sha256:{C}
    # via
    #   dray (pyproject.toml:dev)
    #   one
"""


@contextmanager
def index(pages: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Serves paths, each with its type."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = pages.get(self.path, ("", ""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(PATIENCE)


def html(*files: str) -> tuple[str, str]:
    return "text/html", "".join(f"<a {one}>x</a>\n" for one in files)


def advisory(*found: Mapping[str, object]) -> tuple[str, str]:
    return "application/json", json.dumps({"vulnerabilities": found})


GOOD = {
    "/simple/one/": html(
        f'href="one-1.0.whl#sha256={A}"', f'href="one-0.9.whl#sha256={C}" data-yanked="bad"'
    ),
    "/simple/two-parts/": (
        "application/vnd.pypi.simple.v1+json",
        json.dumps({"files": [{"filename": "two.whl", "hashes": {"sha256": C}, "yanked": False}]}),
    ),
    "/pypi/one/1.0/json": advisory(),
    "/pypi/two-parts/2.0/json": advisory({"id": "OLD-1", "withdrawn": "2020", "fixed_in": []}),
}


def test_entries_are_read_with_who_needs_them() -> None:
    one, two = read_lock(TEXT)
    assert (one.name, one.version, one.hashes) == ("one", "1.0", (A, B))
    assert (two.name, two.version, two.hashes) == ("two-parts", "2.0", (C,))
    assert two.needed_by == {"dray (pyproject.toml:dev)", "one"}
    assert needed_for([one, two], OURSELVES) == [one, two]
    assert needed_for([one, two], "two-parts") == [two]


def test_every_package_of_every_lock_is_pinned_with_hashes() -> None:
    for lock in LOCKS:
        packages = read_lock(lock.read_text())
        assert packages
        assert [one for one in packages if not one.is_pinned] == []
        assert sum(len(one.hashes) for one in packages) == lock.read_text().count("--hash=")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"/simple/one/": html(f'href="one-1.0.whl#sha256={A}" data-yanked="broken"')}, ["one 1.0 was withdrawn: broken"]),
        ({"/simple/one/": html(f'href="one-1.0.whl#sha256={C}"')}, ["one 1.0: the index has no file with any of its hashes"]),
        (
            {"/pypi/one/1.0/json": advisory({"id": "PYSEC-1", "fixed_in": ["1.1"], "withdrawn": None})},
            ["one 1.0: PYSEC-1, mended in 1.1"],
        ),
    ],
)  # fmt: skip
def test_an_audit_finds(tmp_path: Path, changes: dict[str, tuple[str, str]], found: list[str]) -> None:
    lock = tmp_path / "lock"
    lock.write_text(TEXT)
    with index({**GOOD, **changes}) as address:
        report = audit([lock], f"{address}/simple", f"{address}/pypi")
    assert list(report.findings) == found
    assert (report.packages, report.unasked, report.unadvised) == (2, (), ())


def test_what_could_not_be_asked_is_said_and_is_no_finding(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(TEXT)
    with index({"/simple/one/": GOOD["/simple/one/"]}) as address:
        report = audit([lock], f"{address}/simple", f"{address}/pypi")
    assert (report.findings, report.unasked) == ((), ("two-parts",))
    assert "NOT AUDITED against advisories, nobody answered: one, two-parts" in report.lines()


@pytest.mark.parametrize(
    "entry", ["one==1.0", "one>=1.0 --hash=sha256:" + A, "./one", "one==1.* --hash=sha256:" + A]
)
def test_what_is_not_pinned_is_found(tmp_path: Path, entry: str) -> None:
    lock = tmp_path / "lock"
    lock.write_text(f"{entry}\n")
    with index({"/simple/one/": GOOD["/simple/one/"], "/pypi/one/1.0/json": advisory()}) as address:
        report = audit([lock], f"{address}/simple", f"{address}/pypi")
    assert len(report.findings) == 1
    assert "make lock" in report.findings[0]


def test_the_list_of_packages_has_all_that_the_wheel_needs() -> None:
    project = Path("pyproject.toml").read_text()
    document = sbom(LOCK.read_text(), project, extras())
    parts = {one["name"]: one for one in document["components"]}
    named = {
        re.split(r"[^\w.-]", text)[0].replace("_", "-")
        for text in tomllib.loads(project)["project"]["dependencies"]
    }
    assert named <= {name for name, one in parts.items() if one["scope"] == "required"}
    assert set(extras()) <= {name for name, one in parts.items() if one["scope"] == "optional"}
    assert "pytest" not in parts
    shipped = {one.name: one for one in read_lock(Path("deploy/requirements.lock").read_text())}
    assert set(shipped) <= set(parts)
    for name, one in parts.items():
        assert one["purl"] == f"pkg:pypi/{name}@{one['version']}" == one["bom-ref"]
        hashes = [entry["content"] for entry in one["externalReferences"][0]["hashes"]]
        assert all(re.fullmatch("[0-9a-f]{64}", entry) for entry in hashes)
        assert hashes
    refs = {document["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in parts.values())}
    assert {one["ref"] for one in document["dependencies"]} == refs
    assert {below for one in document["dependencies"] for below in one["dependsOn"]} == refs - {
        document["metadata"]["component"]["bom-ref"]
    }
    assert document == sbom(LOCK.read_text(), project, extras())
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])


DIGEST = f"docker.io/library/debian@sha256:{A}"
DAY = "20260115T000000Z"


def pinned(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "deploy/pinned.sh", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("base", "snapshot", "why"),
    [
        ("docker.io/library/debian:12-slim", DAY, "name the base image by digest"),
        ("", DAY, "name the base image by digest"),
        (f"debian@sha256:{A[:-1]}", DAY, "name the base image by digest"),
        (f"debian@sha256:{A} x", DAY, "name the base image by digest"),
        (DIGEST, "", "give a time of snapshot.debian.org"),
        (DIGEST, "latest", "give a time of snapshot.debian.org"),
    ],
)
def test_an_image_that_would_be_another_one_tomorrow_is_not_built(base: str, snapshot: str, why: str) -> None:
    done = pinned(base, snapshot, "")
    assert done.returncode == 1 and why in done.stderr
    assert pinned(base, snapshot, "yes").returncode == 0
    done = subprocess.run(
        ["make", "image", f"DEBIAN={base}", f"SNAPSHOT={snapshot}", "BUILDER=false"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and why in done.stderr


@pytest.mark.parametrize("image", ["", "registry.example.com/dray:0.1.0"])
def test_an_image_that_is_not_pinned_is_told_from_a_release(image: str) -> None:
    def tag(*words: str) -> str:
        base = [f"DEBIAN={DIGEST}", f"SNAPSHOT={DAY}", "BUILDER=echo", *([f"IMAGE={image}"] if image else [])]
        done = subprocess.run(
            ["make", "--silent", "image", *base, *words], capture_output=True, text=True, check=True
        )
        return re.split(r" -t (\S+) \.$", done.stdout.strip())[1]

    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    released = image or f"localhost/dray:{version}"
    assert tag() == released
    assert tag("UNPINNED=yes") == f"{released}-unpinned"
    text = Path("Containerfile").read_text()
    final = text[text.rindex("FROM ") :]
    assert final.index("ARG UNPINNED") < final.index("LABEL")
    assert 'image.version="${VERSION}${UNPINNED:+-unpinned}"' in final
    assert 'internal.dray.unpinned="${UNPINNED}"' in final


def test_packages_are_those_of_one_day(tmp_path: Path) -> None:
    sources = tmp_path / "debian.sources"
    assert pinned(DIGEST, DAY, "", str(sources)).returncode == 0
    found = [line for line in sources.read_text().splitlines() if line.startswith("URIs:")]
    assert len(found) == 2 and all(f"/{DAY}/" in line for line in found)


def test_the_containerfile_has_no_base_of_its_own_and_asks_in_each_stage() -> None:
    text = Path("Containerfile").read_text()
    assert "ARG DEBIAN\n" in text and "ARG DEBIAN=" not in text
    assert text.count("sh /tmp/pinned.sh") == len(re.findall(r"^FROM ", text, re.MULTILINE))


def test_every_tool_is_installed_with_hashes() -> None:
    lines = [line for line in Path("Makefile").read_text().splitlines() if "pip install" in line]
    assert lines and all("--require-hashes" in line or "-e ." in line for line in lines)
