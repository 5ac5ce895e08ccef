"""The client against a receiver in TLS, with certificates made for the test."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from proxy.core.outcome import Reply
from proxy.upstreams.target import target
from proxy.upstreams.upstream import HttpUpstream
from tests.proxy.posting import post
from tests.proxy.receiver import Exchange, Receiver, listening, until


@dataclass(frozen=True)
class Authority:
    """A certificate authority, and a certificate that it gave to 127.0.0.1 or whom it is asked for."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, address: str = "127.0.0.1") -> tuple[Path, Path]:
        """Certificate and key files."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        certificate = _build("server", key, self.certificate.subject, self.key, names)
        (self.folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / "key.pem").write_bytes(_pem(key))
        return self.folder / "cert.pem", self.folder / "key.pem"


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _build(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(extension, critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def _authority(folder: Path) -> Authority:
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _build("test authority", key, None, key, x509.BasicConstraints(ca=True, path_length=None))
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(folder, key, certificate)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority that the receiver's certificate comes from."""
    return _authority(tmp_path / "ours")


def _server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def _upstream(receiver: Receiver, ca: Path, timeout_seconds: float = 5) -> HttpUpstream:
    context = ssl.create_default_context(cafile=ca)
    made = target(f"https://127.0.0.1:{receiver.port}/", (), None, context, timeout_seconds)
    return HttpUpstream(made, asyncio.get_running_loop())


async def test_own_authority(authority: Authority) -> None:
    """With its authority's certificate a receiver is trusted, and the connection is kept."""
    async with listening(Receiver(), _server_context(authority.issue())) as receiver:
        upstream = _upstream(receiver, authority.file)
        assert [await post(upstream, bytes(size)) for size in (1, 1 << 20, 0)] == [Reply(204)] * 3
        assert receiver.connections == 1
        upstream.close()
        await until(lambda: receiver.closed == 1)


async def test_other_authority(authority: Authority, tmp_path: Path) -> None:
    """A certificate of an authority that we do not know is an error, and the receiver gets nothing."""
    stranger = _authority(tmp_path / "theirs")
    async with listening(Receiver(), _server_context(stranger.issue())) as receiver:
        upstream = _upstream(receiver, authority.file)
        assert await post(upstream) == Reply(0, error="tls")
        assert receiver.requests == []
        upstream.close()


async def test_certificate_of_another_host(authority: Authority) -> None:
    """A certificate for another address is an error."""
    async with listening(Receiver(), _server_context(authority.issue("127.0.0.2"))) as receiver:
        upstream = _upstream(receiver, authority.file)
        assert await post(upstream) == Reply(0, error="tls")
        assert receiver.requests == []
        upstream.close()


async def test_receiver_without_tls(authority: Authority) -> None:
    """A receiver that does not speak TLS is an error."""

    class Plain(Receiver):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await reader.read(1)
            writer.close()

    async with listening(Plain()) as receiver:
        upstream = _upstream(receiver, authority.file)
        assert await post(upstream) == Reply(0, error="tls")
        upstream.close()


async def test_slow_handshake(authority: Authority) -> None:
    """Connecting counts for the timeout: a handshake that never ends is an error, and leaves no task behind."""
    go = asyncio.Event()

    class Mute(Receiver):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go.wait()

    async with listening(Mute()) as receiver:
        upstream = _upstream(receiver, authority.file, timeout_seconds=0.2)
        assert await post(upstream) == Reply(0, error="connect_timeout")
        await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if "HttpUpstream" in repr(task)] == []
        go.set()
        upstream.close()


async def test_lost_kept_connection(authority: Authority) -> None:
    """A kept connection that ends without a reply is mended in TLS too."""

    async def answer(exchange: Exchange) -> None:
        if exchange.request.body == b"2" and exchange.request.connection == 1:
            exchange.reset()
        else:
            await exchange.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with listening(Receiver(answer), _server_context(authority.issue())) as receiver:
        upstream = _upstream(receiver, authority.file)
        assert [await post(upstream, body) for body in (b"1", b"2")] == [Reply(204)] * 2
        assert [request.body for request in receiver.requests] == [b"1", b"2", b"2"]
        upstream.close()
