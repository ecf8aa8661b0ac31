"""A server for tests that speaks the part of Google Cloud Storage's XML API that copies of stores need.

That part is S3's but for the names of headers and for who may ask, so objects are moto's. It is written from Google's
reference of the XML API, since no emulator at hand takes objects by it. Requests are encrypted, and must carry a token
that the key of a service account signed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moto_server import MotoServer, serve_moto

EMAIL, KEY_ID = "tests@nobody.example", "key-of-a-test"
#: Which rights a token must ask for: one of those that allow to write.
SCOPES = [
    f"https://www.googleapis.com/auth/{name}"
    for name in ("cloud-platform", "devstorage.full_control", "devstorage.read_write")
]

_SIGNED = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


def _pem(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _certificate(folder: Path) -> tuple[str, str]:
    """Paths of a certificate for this machine and of its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_text(_pem(key))
    return str(folder / "certificate.pem"), str(folder / "key.pem")


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclass
class GoogleServer:
    """The server.

    Attributes:
        objects: moto's, and requests for them.
        certificate: which clients must trust.
        refused: why requests were refused.
    """

    certificate: str
    objects: MotoServer = field(default_factory=MotoServer)
    refused: list[str] = field(default_factory=list)
    _key: Any = None

    def account(self) -> dict[str, str]:
        """What the file of the service account holds."""
        return {
            "type": "service_account",
            "private_key": _pem(self._key),
            "private_key_id": KEY_ID,
            "client_email": EMAIL,
            "gcs_base_url": self.objects.endpoint,
        }

    def layer(self, application: Any) -> Any:
        """Checks the token of a request, and translates its headers for S3."""

        def serve(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            if environ.get("HTTP_USER_AGENT", "").startswith("Boto"):
                return application(environ, start)
            reason = self._objection(environ.pop("HTTP_AUTHORIZATION", ""))
            if any(name.startswith("HTTP_X_AMZ_") for name in environ):
                reason = "a header of S3"
            if reason:
                self.refused.append(reason)
                body = b"<?xml version='1.0'?><Error><Code>AuthenticationRequired</Code></Error>"
                start("401 Unauthorized", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
                return [body]
            # moto wants a signature, but compares none.
            environ["HTTP_AUTHORIZATION"] = _SIGNED
            if source := environ.pop("HTTP_X_GOOG_COPY_SOURCE", None):
                environ["HTTP_X_AMZ_COPY_SOURCE"] = source
            return application(environ, start)

        return serve

    def _objection(self, authorization: str) -> str | None:
        """What is wrong with a token, a JSON Web Token of RFC 7519; None: nothing."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        kind, _, token = authorization.partition(" ")
        if kind != "Bearer" or token.count(".") != 2:
            return "no token"
        head, claims, signature = token.split(".")
        stated, said = json.loads(_decoded(head)), json.loads(_decoded(claims))
        with contextlib.suppress(InvalidSignature):
            signed = f"{head}.{claims}".encode()
            self._key.public_key().verify(_decoded(signature), signed, padding.PKCS1v15(), hashes.SHA256())
            is_valid = stated["kid"] == KEY_ID and said["iss"] == EMAIL and said["scope"] in SCOPES
            return None if is_valid and said["iat"] - 60 <= time.time() < said["exp"] else "a wrong claim"
        return "a wrong signature"


@contextmanager
def serve_google(folder: Path) -> Iterator[GoogleServer]:
    """Start the server with an empty bucket; its certificate is written into `folder`."""
    reason = "cryptography is not installed (`make build-test` does so): stores at gs:// are not tested"
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa", reason=reason)
    tls = _certificate(folder)
    server = GoogleServer(tls[0], _key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    with serve_moto(server.layer, tls) as server.objects:
        yield server
