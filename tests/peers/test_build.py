import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import build, registry


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c"}, Path("/c/whosegpu/peers")),
        ({}, Path.home() / ".cache/whosegpu/peers"),
        ({"XDG_CACHE_HOME": ""}, Path.home() / ".cache/whosegpu/peers"),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/whosegpu/peers"),
    ],
    ids=["set", "unset", "empty", "relative"],
)
def test_built_peers_are_kept_in_the_users_cache(environ: dict[str, str], folder: Path) -> None:
    """XDG_CACHE_HOME decides when it is an absolute path, ~/.cache otherwise."""
    assert build.cache_folder(environ) == folder


@pytest.mark.parametrize("peer", build.PEERS, ids=lambda peer: peer.program)
def test_every_peer_is_pinned(peer: build.Peer) -> None:
    """Each peer's go.mod requires its module at one version, and go.sum bears the checksum of that version."""
    folder = build.FOLDER / peer.folder
    assert peer.version.startswith("v")
    assert f"{peer.module} {peer.version} h1:" in (folder / "go.sum").read_text(encoding="utf-8")
    assert registry.version(peer.program) == peer.version
    assert peer.binary.name == f"{peer.program}-{peer.version}"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The builder, run as `make peers` runs it, with nothing on PATH but what fake_go put there."""
    env = {"PATH": str(folder / "bin"), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, str(build.FOLDER / "build.py"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def fake_go(folder: Path, script: str) -> None:
    """A `go` command that does what the script says."""
    go = folder / "bin" / "go"
    go.parent.mkdir()
    go.write_text(f"#!{sys.executable}\nimport os, sys\n{script}\n", encoding="utf-8")
    go.chmod(0o755)


def test_without_go_the_builder_says_so(tmp_path: Path) -> None:
    """No go on PATH: one clear sentence and status 1."""
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "make peers: Go 1.26 or newer builds the peers, and there is no `go` on PATH.\n"


def test_a_failed_build_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A go that fails: the peer is named, the status is 1, and no half-made file stays behind."""
    fake_go(tmp_path, "sys.exit(3)")
    done = run(tmp_path, "etcd")
    assert done.returncode == 1
    assert done.stderr == "make peers: etcd v3.7.3 did not build: go build ended with status 3.\n"
    assert list((tmp_path / "cache/whosegpu/peers").iterdir()) == []


def test_a_peer_is_built_once(tmp_path: Path) -> None:
    """A built peer appears under its name and version, and the next run leaves it alone."""
    fake_go(tmp_path, "open(sys.argv[sys.argv.index('-o') + 1], 'w').write(' '.join(sys.argv[1:]))")
    first, second = run(tmp_path, "cortex"), run(tmp_path, "cortex")
    built = tmp_path / "cache/whosegpu/peers/cortex-v1.21.1"
    assert first.stdout == f"{built}: built in 0 s\n", first.stderr
    assert second.stdout == f"{built}: already there\n"
    assert "-mod=readonly" in built.read_text(encoding="utf-8")
    assert "-ldflags -s -w -tags netgo slicelabels" in built.read_text(encoding="utf-8")


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    """A name that is no peer: the sentence lists those there are, and nothing is built."""
    done = run(tmp_path, "mimir")
    assert done.returncode == 1
    assert "No such peer: mimir. There are: prometheus," in done.stderr


def test_a_missing_peer_is_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry names what is missing, and asking for its program says what brings it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert registry.missing(["vmagent", "cortex", "vmagent"]) == ("cortex", "vmagent")
    with pytest.raises(registry.MissingPeerError, match="`make peers` brings it"):
        registry.binary("cortex")
