"""The cluster's own certificate authority, and what it signs: real TLS, verified by every client.

Keys live in the private directory only and are valid for a day.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=1)
# A machine whose clock was just set back must still trust what it signed a moment ago.
BACKDATED = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """Two PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs server and client certificates; `certificate` is the CA file for kubeconfigs."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("dray-e2e-ca", ())
        self.certificate = directory / "ca.crt"
        builder = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        signed = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def server(self, file_name: str, names: Sequence[str]) -> KeyPair:
        """A serving certificate for host names and IP addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._sign(file_name, _name(file_name, ()), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, file_name: str, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate: the API server sees `user` in `groups`."""
        return self._sign(file_name, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def signing_key(self, file_name: str) -> KeyPair:
        """A bare key pair, to sign and check service account tokens (`certificate` is the public key)."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = KeyPair(self._directory / f"{file_name}.pub", self._directory / f"{file_name}.key")
        _write_key(pair.key, key)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        pair.certificate.write_bytes(public)
        return pair

    def _sign(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(self._directory / f"{file_name}.crt", self._directory / f"{file_name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    """Kubernetes reads the user from CN and the groups from O."""
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFETIME)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
