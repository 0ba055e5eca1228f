"""A server's own certificate authority, kept in its data directory, and the certificates it serves and asks with."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dray.errors import HardwareError, InvalidError
from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.files.oserrors import from_os_error

CA_LIFETIME = timedelta(days=3650)
SERVER_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
# A client whose clock is a little behind must trust what was signed a moment ago.
_BACKDATED = timedelta(hours=1)
# Made while the clock ran ahead, an authority must be good when it is set right: nobody can be told of another one.
_CA_BACKDATED = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Serving:
    """PEM files for a TLS server, and the authority that its clients trust."""

    ca: Path
    certificate: Path
    key: Path


def server_context(serving: Serving, client_ca: Path | None = None) -> ssl.SSLContext:
    """For a server that listens with these files; read now, so later ones count from the next start on.

    With `client_ca` a client may show a certificate, and one of another authority ends the connection; who must show
    one is for the server to say.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(serving.certificate, serving.key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        _trust(context, client_ca)
    return context


def _trust(context: ssl.SSLContext, file: Path) -> None:
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise InvalidError(f"{str(file)!r} holds no certificate in PEM form: {error}") from error
    except OSError as error:
        raise from_os_error(error, "read the authority of clients in", str(file)) from error


def serving_certificate(directory: Path, names: Sequence[str], now: datetime) -> Serving:
    """Those in the directory, where they still fit; else new ones. The authority stays, so kubeconfigs stay good.

    Called at each start. An authority that ran out is replaced, and kubeconfigs must be written again.
    """
    try:
        make_directory(directory)
        return _serving(directory, names, now)
    except OSError as error:
        raise from_os_error(error, "keep certificates in", str(directory)) from error


def _serving(directory: Path, names: Sequence[str], now: datetime) -> Serving:
    found = Serving(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    authority = _read_pair(found.ca, directory / "ca.key")
    if authority is None or authority[0].not_valid_after_utc <= now + RENEW_BEFORE:
        authority = _new_authority(now)
        _write_pair(directory, "ca", *authority)
    own = _read_pair(found.certificate, found.key)
    if own is None or not _still_fits(own[0], authority[0], names, now):
        _write_pair(directory, "server", *_new_server(authority, names, now))
    return found


def client_certificate(directory: Path, name: str, user: tuple[str, str], now: datetime) -> Serving:
    """The pair `name` that a server shows others as `user` (its name and group), signed by the directory's authority.

    Called at each start, after `serving_certificate`.
    """
    found = Serving(directory / "ca.crt", directory / f"{name}.crt", directory / f"{name}.key")
    try:
        authority = _read_pair(found.ca, directory / "ca.key")
        if authority is None:
            raise HardwareError(f"{str(found.ca)!r} is missing: start again", path=str(found.ca))
        own = _read_pair(found.certificate, found.key)
        subject = _user(*user)
        if own is None or own[0].subject != subject or not _is_current(own[0], authority[0], now):
            _write_pair(directory, name, *_new_client(authority, subject, now))
    except OSError as error:
        raise from_os_error(error, "keep certificates in", str(directory)) from error
    return found


def _new_authority(now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"dray-ca-{now:%Y%m%d%H%M%S}")
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = _builder(name, name, key.public_key(), (now - _CA_BACKDATED, now + CA_LIFETIME))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key


def _new_server(
    authority: tuple[x509.Certificate, ec.EllipticCurvePrivateKey], names: Sequence[str], now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, signer = authority
    span = now - _BACKDATED, now + SERVER_LIFETIME
    builder = _builder(_name("dray-server"), certificate.subject, key.public_key(), span).add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
    )
    alternatives = x509.SubjectAlternativeName([_general_name(one) for one in sorted(set(names))])
    return builder.add_extension(alternatives, critical=False).sign(signer, hashes.SHA256()), key


def _new_client(
    authority: tuple[x509.Certificate, ec.EllipticCurvePrivateKey], subject: x509.Name, now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, signer = authority
    span = now - _BACKDATED, now + SERVER_LIFETIME
    builder = _builder(subject, certificate.subject, key.public_key(), span).add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
    )
    return builder.sign(signer, hashes.SHA256()), key


def _still_fits(own: x509.Certificate, ca: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    try:
        told = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return {_general_name(one) for one in names} <= set(told) and _is_current(own, ca, now)


def _is_current(own: x509.Certificate, ca: x509.Certificate, now: datetime) -> bool:
    try:
        own.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return own.not_valid_before_utc <= now and own.not_valid_after_utc > now + RENEW_BEFORE


def _read_pair(certificate: Path, key: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    """None where one is missing or they do not belong together: a kill came between the two writes."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise HardwareError(
            f"{str(certificate)!r} and {str(key)!r} cannot be read ({error}): restore or remove both",
            path=str(certificate),
        ) from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != found.public_key():
        return None
    return found, private


def _write_pair(
    directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_durably(directory / f"{name}.key", secret)
    write_durably(directory / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    span: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _user(name: str, group: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
