from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from dray.errors import HardwareError
from dray.runtime.certificates import (
    RENEW_BEFORE,
    SERVER_LIFETIME,
    Serving,
    client_certificate,
    serving_certificate,
)

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
NAMES = ("127.0.0.1", "::1", "localhost")


def files(serving: Serving) -> tuple[bytes, bytes]:
    return serving.ca.read_bytes(), serving.certificate.read_bytes()


def talk(serving: Serving, name: str) -> None:
    """A handshake in memory, as strict as any client's."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(serving.certificate, serving.key)
    client = ssl.create_default_context(cafile=serving.ca)
    ways = [ssl.MemoryBIO() for _ in range(2)]
    ends = (
        client.wrap_bio(ways[0], ways[1], server_hostname=name),
        server.wrap_bio(ways[1], ways[0], server_side=True),
    )
    waiting = list(ends)
    while waiting:
        for one in tuple(waiting):
            try:
                one.do_handshake()
                waiting.remove(one)
            except ssl.SSLWantReadError:
                pass


def test_clients_that_trust_the_authority_trust_the_server(tmp_path: Path) -> None:
    serving = serving_certificate(tmp_path / "pki", NAMES, datetime.now(UTC))
    for name in NAMES:
        talk(serving, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(serving, "example.com")
    assert stat.S_IMODE(serving.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki" / "ca.key").stat().st_mode) == 0o600


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    first = files(serving_certificate(tmp_path, NAMES, NOW))
    assert files(serving_certificate(tmp_path, NAMES[:1], NOW + timedelta(days=1))) == first


def test_a_clock_that_ran_ahead_spoils_nothing(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ca, _ = files(serving_certificate(tmp_path, NAMES, now + timedelta(days=400)))
    serving = serving_certificate(tmp_path, NAMES, now)
    assert files(serving)[0] == ca
    talk(serving, NAMES[0])


def test_the_authority_outlives_its_servers(tmp_path: Path) -> None:
    ca, certificate = files(serving_certificate(tmp_path, NAMES, NOW))
    later = NOW + SERVER_LIFETIME - RENEW_BEFORE
    renewed = files(serving_certificate(tmp_path, NAMES, later))
    assert renewed[0] == ca and renewed[1] != certificate
    other = files(serving_certificate(tmp_path, ("10.0.0.1",), later))
    assert other[0] == ca and other[1] != renewed[1]
    told = x509.load_pem_x509_certificate(other[1]).extensions
    assert "10.0.0.1" in str(told.get_extension_for_class(x509.SubjectAlternativeName))
    much_later = NOW + timedelta(days=3650)
    assert files(serving_certificate(tmp_path, NAMES, much_later))[0] != ca


@pytest.mark.parametrize("name", ["ca", "server"])
def test_a_kill_between_key_and_certificate_is_mended(tmp_path: Path, name: str) -> None:
    serving = serving_certificate(tmp_path, NAMES, datetime.now(UTC))
    other = serving_certificate(tmp_path / "other", NAMES, datetime.now(UTC))
    (tmp_path / f"{name}.key").write_bytes((other.ca.parent / f"{name}.key").read_bytes())
    talk(serving_certificate(tmp_path, NAMES, datetime.now(UTC)), "localhost")
    (tmp_path / f"{name}.crt").unlink()
    talk(serving_certificate(tmp_path, NAMES, datetime.now(UTC)), "localhost")
    assert serving.ca.exists()


def test_a_damaged_file_is_told_and_not_replaced(tmp_path: Path) -> None:
    serving = serving_certificate(tmp_path, NAMES, NOW)
    serving.ca.write_text("nonsense")
    with pytest.raises(HardwareError, match=r"ca\.crt.*restore or remove both"):
        serving_certificate(tmp_path, NAMES, NOW)
    assert serving.ca.read_text() == "nonsense"


def test_the_certificate_a_server_asks_with_is_kept_while_it_fits(tmp_path: Path) -> None:
    user = ("server", "system:masters")
    serving_certificate(tmp_path, NAMES, NOW)
    first = client_certificate(tmp_path, "ask", user, NOW)
    made = x509.load_pem_x509_certificate(first.certificate.read_bytes())
    assert made.subject.rfc4514_string() == "CN=server,O=system:masters"
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(first.ca.read_bytes()))
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600

    before = files(first)
    assert files(client_certificate(tmp_path, "ask", user, NOW + timedelta(days=1))) == before
    for other, moment in (
        (("server", "nobody"), NOW),
        (user, NOW),
        (user, NOW + SERVER_LIFETIME - RENEW_BEFORE),
    ):
        after = files(client_certificate(tmp_path, "ask", other, moment))
        assert after != before
        before = after


def test_without_an_authority_there_is_no_client_certificate(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"ca\.crt"):
        client_certificate(tmp_path, "ask", ("server", "g"), NOW)
