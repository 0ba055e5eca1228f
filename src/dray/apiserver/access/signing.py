"""Signed tokens (JWT, ES256): what is signed with the server's key is believed without being stored, also after a restart."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from dray.errors import HardwareError
from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.files.oserrors import from_os_error

_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
_HALF: Final = 32
"""Bytes of each of the two numbers that are a signature."""
_LONGEST: Final = 16 * 1024


class Signer:
    """One key, kept in a file that only its owner reads. Who loses the file ends all tokens that were signed with it."""

    def __init__(self, path: Path) -> None:
        """Read the key, or make one where there is none. HardwareError for a file that holds something else."""
        self._key = _read(path) or _make(path)
        self._header = _written({"alg": "ES256", "typ": "JWT"})

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A token that says this."""
        text = f"{self._header}.{_written(claims)}"
        first, second = decode_dss_signature(self._key.sign(text.encode(), _ALGORITHM))
        return f"{text}.{_packed(first.to_bytes(_HALF) + second.to_bytes(_HALF))}"

    def read(self, token: str) -> dict[str, Any] | None:
        """What a token says, or None where it is not of this key. How long it is good is for the caller to judge."""
        text, _, last = token.rpartition(".")
        header, _, body = text.partition(".")
        if header != self._header or len(token) > _LONGEST:
            return None
        try:
            signature = _unpacked(last)
            if len(signature) != 2 * _HALF:
                return None
            numbers = (int.from_bytes(part) for part in (signature[:_HALF], signature[_HALF:]))
            self._key.public_key().verify(encode_dss_signature(*numbers), text.encode(), _ALGORITHM)
            return msgspec.json.decode(_unpacked(body), type=dict[str, Any])
        except (InvalidSignature, binascii.Error, msgspec.MsgspecError, ValueError):
            return None


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpacked(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _written(value: Mapping[str, Any]) -> str:
    return _packed(msgspec.json.encode(value, order="sorted"))


def _read(path: Path) -> ec.EllipticCurvePrivateKey | None:
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise from_os_error(error, "read", str(path)) from error
    except (ValueError, TypeError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name != "secp256r1":
        raise _damaged(path, "another kind of key")
    return found


def _make(path: Path) -> ec.EllipticCurvePrivateKey:
    made = ec.generate_private_key(ec.SECP256R1())
    data = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        make_directory(path.parent)
        write_durably(path, data)
    except OSError as error:
        raise from_os_error(error, "write", str(path)) from error
    return made


def _damaged(path: Path, why: str) -> HardwareError:
    text = (
        f"{str(path)!r} is not a key for signing tokens ({why}): restore it, or remove it and all tokens end"
    )
    return HardwareError(text, path=str(path))
