from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from dray.apiserver.access.signing import Signer
from dray.errors import Error, HardwareError

CLAIMS = {"sub": "somebody", "exp": 5, "aud": ["a", "ä"]}


def unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_what_was_signed_is_read_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "pki" / "k.key"
    token = Signer(path).sign(CLAIMS)
    assert Signer(path).read(token) == CLAIMS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_others_can_check_it_with_the_public_key(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    header, body, signature = Signer(path).sign(CLAIMS).split(".")
    assert json.loads(unpacked(header)) == {"alg": "ES256", "typ": "JWT"}
    assert json.loads(unpacked(body)) == CLAIMS
    raw = unpacked(signature)
    assert len(raw) == 64
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.public_key().verify(der, f"{header}.{body}".encode(), ec.ECDSA(hashes.SHA256()))


def test_what_was_changed_or_made_by_others_is_not_believed(tmp_path: Path) -> None:
    signer = Signer(tmp_path / "k.key")
    token = signer.sign(CLAIMS)
    header, body, signature = token.split(".")
    other = packed(json.dumps({**CLAIMS, "sub": "admin"}).encode())
    none = packed(b'{"alg":"none","typ":"JWT"}')
    raw = unpacked(signature)
    bad = [
        Signer(tmp_path / "other.key").sign(CLAIMS),
        f"{header}.{other}.{signature}",
        f"{none}.{body}.",
        f"{none}.{body}.{signature}",
        f"{header}.{body}.",
        f"{header}.{body}.{packed(bytes(64))}",
        f"{header}.{body}.{packed(raw[:63])}",
        f"{header}.{body}.{packed(raw + b'0')}",
        f"{header}.{body}.{signature}!",
        f"{header}.{body}.{'A' * 20000}",
        f"{header}.{body}",
        f"{token}.x",
        "..",
        "",
        "\udcff.x.y",
        f"{header}.\udcff.{signature}",
    ]
    assert [one for one in bad if signer.read(one) is not None] == []
    assert signer.read(token) == CLAIMS


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_key_is_told_and_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k.key"
    path.write_text(text)
    with pytest.raises(HardwareError, match="is not a key for signing tokens"):
        Signer(path)
    assert path.read_text() == text


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    key = ec.generate_private_key(ec.SECP384R1())
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(*pem))
    with pytest.raises(HardwareError, match="another kind of key"):
        Signer(path)


def test_a_token_of_more_than_16_kibibytes_is_not_read(tmp_path: Path) -> None:
    signer = Signer(tmp_path / "k.key")
    sizes = {}
    for length in range(12_170, 12_215):
        token = signer.sign({"sub": "x" * length})
        sizes[len(token)] = signer.read(token) is not None
    assert min(sizes) < 16_384 < max(sizes)
    assert sizes == {size: size <= 16_384 for size in sizes}


def test_a_key_that_cannot_be_kept_is_told_as_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(Error, match="write"):
        Signer(tmp_path / "link" / "k.key")
