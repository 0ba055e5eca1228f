from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.client.access import ClusterAccess, Impersonation, Secret, User
from dray.client.credentials import Credentials, Tls, build_context
from dray.errors import InvalidError
from tests.client.certificates import Authority


def bearer(credentials: Credentials) -> str | None:
    return credentials.headers().get("Authorization")


def test_nobody_sends_nothing() -> None:
    assert not Credentials(User()).headers()


def test_token_and_basic() -> None:
    assert bearer(Credentials(User(token=" abc\n"))) == "Bearer abc"
    assert bearer(Credentials(User(username="u", password="p"))) == "Basic dTpw"


@pytest.mark.parametrize("token", ["a b", "a\nb", "tök", "a\x00"])
def test_tokens_that_could_smuggle_headers_are_refused(token: str) -> None:
    with pytest.raises(InvalidError, match="token: holds characters"):
        Credentials(User(token=token))


def test_impersonation_headers() -> None:
    who = Impersonation("jane", "7", ("a", "b"), (("Scopes/x", ("1", "2")),))
    headers = Credentials(User(token="t", impersonate=who)).headers()
    assert headers["Impersonate-User"] == "jane"
    assert headers.getall("Impersonate-Group") == ["a", "b"]
    assert headers.getall("Impersonate-Extra-scopes%2Fx") == ["1", "2"]
    with pytest.raises(InvalidError, match="control characters"):
        Credentials(User(impersonate=Impersonation("a\r\nX: y")))


def test_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    """As the kubelet does it: a symlink to a directory is swapped."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(f"{name}\n")
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "token").symlink_to("data/token")
    credentials = Credentials(User(token_file=Secret("tokenFile", path=tmp_path / "token")))
    assert bearer(credentials) == "Bearer one"
    (tmp_path / "next").symlink_to("two")
    os.replace(tmp_path / "next", tmp_path / "data")
    assert bearer(credentials) == "Bearer two"


def test_token_file_in_the_middle_of_a_change_keeps_the_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = Credentials(User(token_file=Secret("tokenFile", path=path)))
    for content in ("", "not a token"):
        path.write_text(content)
        assert bearer(credentials) == "Bearer one"
    path.unlink()
    assert bearer(credentials) == "Bearer one"
    path.write_text("two")
    assert bearer(credentials) == "Bearer two"


def test_token_file_must_be_usable_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(InvalidError, match="cannot read tokenFile"):
        Credentials(User(token_file=Secret("tokenFile", path=path)))
    path.write_text("\n")
    with pytest.raises(InvalidError, match="tokenFile is empty"):
        Credentials(User(token_file=Secret("tokenFile", path=path)))
    assert bearer(Credentials(User(token="t", token_file=Secret("tokenFile", path=path)))) == "Bearer t"


def access(ca: bytes = b"", certificate: bytes = b"", key: bytes = b"") -> ClusterAccess:
    user = User(
        certificate=Secret("client-certificate-data", certificate) if certificate else None,
        key=Secret("client-key-data", key) if key else None,
    )
    return ClusterAccess("https://x", user=user, ca=Secret("certificate-authority-data", ca) if ca else None)


def test_unusable_certificates_name_their_field(authority: Authority) -> None:
    pair, other = authority.issue("me"), authority.issue("other")
    locked = authority.issue("me", password=b"secret")
    for bad in (b"junk", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(InvalidError, match="certificate-authority-data"):
            build_context(access(ca=bad))
    with pytest.raises(InvalidError, match="not a matching PEM pair"):
        build_context(access(certificate=pair.certificate, key=other.key))
    with pytest.raises(InvalidError, match="not a matching PEM pair"):
        build_context(access(certificate=b"junk", key=b"junk"))
    with pytest.raises(InvalidError, match="client-key-data: is encrypted"):
        build_context(access(certificate=locked.certificate, key=locked.key))
    build_context(access(ca=authority.pem, certificate=pair.certificate.rstrip(), key=pair.key))


def test_changed_certificate_files_give_a_new_context(tmp_path: Path, authority: Authority) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.pem)
    tls = Tls(ClusterAccess("https://x", ca=Secret("certificate-authority", path=ca)))
    first = tls.context()
    assert tls.context() is first
    ca.write_bytes(b"half a cert")
    assert tls.context() is first
    ca.write_bytes(Authority("next").pem)
    assert tls.context() is not first
