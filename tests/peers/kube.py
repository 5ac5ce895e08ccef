"""A real Kubernetes API: etcd and kube-apiserver on loopback, without kubelet and controllers; and kubectl."""

import json
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.peers.certificates import Authority, KeyPair, write_key
from tests.peers.processes import PeerError, Process, Program, free_ports, running
from tests.peers.registry import binary
from tests.peers.web import Call

_COMMAND_S = 60


@dataclass(frozen=True, slots=True)
class Kube:
    """A running API server; ``kubeconfig`` is an administrator's."""

    url: str
    process: Process
    etcd: Process
    authority: Authority
    kubeconfig: Path

    def trust(self) -> ssl.SSLContext:
        """For clients without a certificate: trusts the server, and nothing more."""
        return ssl.create_default_context(cafile=str(self.authority.ca_file))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints, as the administrator; raises PeerError with what it complains about."""
        home = self.kubeconfig.parent
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            [str(binary("kubectl")), *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env=env,
            timeout=_COMMAND_S,
            check=False,
        )
        if done.returncode != 0:
            raise PeerError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, manifests: str) -> str:
        """Applies manifests, server-side, every unknown or doubled field an error. Raises PeerError."""
        return self.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=manifests)


@contextmanager
def kube(folder: Path) -> Iterator[Kube]:
    """An API server that keeps everything in the folder, ready inside the block and gone after it."""
    folder.mkdir(parents=True, exist_ok=True)
    client_port, peer_port, port = free_ports(3)
    url, etcd_url = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{client_port}"
    authority = Authority(folder / "certificates")
    admin = authority.sign("admin", "system:masters")
    kubeconfig = folder / "admin.kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(url, authority, admin)), encoding="utf-8")
    ready = Call(f"{url}/readyz", tls=_tls(authority, admin))
    command = _apiserver(folder, etcd_url, port, authority)
    with (
        running(_etcd(folder, etcd_url, f"http://127.0.0.1:{peer_port}")) as etcd,
        running(Program(command, folder / "kube-apiserver.log", ready)) as process,
    ):
        yield Kube(url, process, etcd, authority, kubeconfig)


def _etcd(folder: Path, url: str, peer_url: str) -> Program:
    command = [
        str(binary("etcd")),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
    ]
    return Program(command, folder / "etcd.log", Call(f"{url}/health"))


def _apiserver(folder: Path, etcd_url: str, port: int, authority: Authority) -> list[str]:
    server = authority.sign("kube-apiserver")
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "service-accounts.key", folder / "service-accounts.pub"
    write_key(private, key)
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return [
        str(binary("kube-apiserver")),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # the others refuse a loopback address
        f"--secure-port={port}",
        f"--tls-cert-file={server.cert_file}",
        f"--tls-private-key-file={server.key_file}",
        f"--client-ca-file={authority.ca_file}",
        f"--cert-dir={folder}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={private}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        # No controller makes a namespace's default service account here.
        "--disable-admission-plugins=ServiceAccount",
    ]


def _tls(authority: Authority, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def _kubeconfig(url: str, authority: Authority, admin: KeyPair) -> dict[str, object]:
    user = {"client-certificate": str(admin.cert_file), "client-key": str(admin.key_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(authority.ca_file)}}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
