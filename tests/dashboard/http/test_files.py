"""The page's own files: what is there is served as what it is, and nothing else can be reached."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dray.dashboard.http.files import read_files
from tests.dashboard.looking import alone


async def test_the_page_and_its_parts() -> None:
    files = read_files()
    assert "index.html" in files
    async with alone() as looker:
        for name, file in files.items():
            status, headers, body = await looker.ask(f"/{name}", token="")
            assert (status, headers["Content-Type"], body) == (200, file.content_type, file.body)
            known = {"If-None-Match": f'"other", W/{headers["ETag"]}'}
            assert (await looker.ask(f"/{name}", headers=known))[0] == 304
        status, headers, body = await looker.ask("/", method="HEAD")
        assert (status, body) == (200, b"")


def test_types_that_are_not_for_browsers_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("index.html", "parts/a.js", "notes.txt", ".hidden.js", "x.py"):
        (tmp_path / name).write_text("x")
    assert set(read_files(tmp_path)) == {"", "index.html", "parts/a.js"}
    assert read_files(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "path",
    ["/../__init__.py", "/..%2f__init__.py", "/static/../server.py", "//etc/passwd", "/%2e%2e/server.py",
     "/index.html/", "/index.html%00", "/./index.html", "\\..\\server.py"],
)  # fmt: skip
async def test_no_path_leads_out(path: str) -> None:
    """Sent as it is: clients would tidy such paths up."""
    async with alone() as looker:
        address = urlsplit(looker.at.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        assert answer.split(b" ", 2)[1] in (b"404", b"400"), answer
