"""As in production: TLS, and a protocol that both sides agree on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from h2.connection import H2Connection

from plugins.fcm.tests.helpers import channel_for, delivery, kind_of
from sendoff.plugin import Outage, Verdict
from sendoff_fcm.testing import LocalFCM


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A key, and a certificate for this machine that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_path, path = tmp_path / "key.pem", tmp_path / "certificate.pem"
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    key_path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    path.write_bytes(made.public_bytes(pem))
    return key_path, path


@asynccontextmanager
async def tls_in_front_of(fcm: LocalFCM, certificate: tuple[Path, Path], protocols: list[str]) -> AsyncIterator[str]:
    """The endpoint of a server that takes TLS off and hands the rest on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    context.set_alpn_protocols(protocols)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", urlsplit(fcm.endpoint).port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def sent_over_tls(
    fcm: LocalFCM, certificate: tuple[Path, Path], protocols: list[str], *, http2: bool = True
) -> list[Verdict]:
    async def send() -> list[Verdict]:
        async with tls_in_front_of(fcm, certificate, protocols) as endpoint:
            channel = channel_for(fcm, endpoint=endpoint, http2=http2)
            try:
                return [await channel.send(delivery(f"phone-{index}")) for index in range(3)]
            finally:
                await channel.stop()

    return asyncio.run(send())


@pytest.fixture
def trusted(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    # A proxy of whoever runs the tests is not for this machine's own addresses.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return certificate


@pytest.mark.parametrize(("http2", "protocol"), [(True, "HTTP/2"), (False, "HTTP/1.1")])
def test_messages_over_tls(http2: bool, protocol: str, fcm: LocalFCM, trusted: tuple[Path, Path]) -> None:
    verdicts = sent_over_tls(fcm, trusted, ["h2", "http/1.1"], http2=http2)
    assert ["sent"] * 3 == [kind_of(verdict) for verdict in verdicts]
    assert [protocol] * 3 == [request.protocol for request in fcm.requests]
    assert 1 == len({request.connection for request in fcm.requests})


def test_a_server_without_http2_is_named(fcm: LocalFCM, trusted: tuple[Path, Path]) -> None:
    verdict = sent_over_tls(fcm, trusted, ["http/1.1"])[0]
    assert isinstance(verdict, Outage)
    assert "set http2 = false" in verdict.reason
    assert [] == fcm.requests


def test_a_certificate_of_nobody_we_know_is_an_outage(
    fcm: LocalFCM, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    verdict = sent_over_tls(fcm, certificate, ["h2"])[0]
    assert isinstance(verdict, Outage)
    assert "SSLCertVerificationError" in verdict.reason
    assert [] == fcm.requests


def test_h2_can_be_told_to_remember_less() -> None:
    """What keeps memory flat is an attribute of h2 that another version might call something else."""
    assert isinstance(H2Connection.MAX_CLOSED_STREAMS, int)
