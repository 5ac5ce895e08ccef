"""What becomes of a series, decided here or by a running proxy."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.demo.proxy_process import proxy_process
from cli.demo.workplace import Workplace
from cli.explain import chunks
from tests.cli.command import VECTORS, Command, spawned

UUID = "GPU-0f7d3a96-2c51-4be8-b6f3-5a1c9e20d401"
OWNED_MS, IDLE_MS, UNKNOWN_MS = 1767225000001, 1767225300001, 1767224999999

CONFIG = """\
proxy:
  listen: 127.0.0.1:0
  data_dir: {folder}/data
  idle_tenant: platform
tenants:
  - id: team-nlp
    namespaces: [team-nlp]
    endpoint: {{embedded: true}}
    write_relabel_configs:
      - {{action: drop, source_labels: [__name__], regex: "DCGM_FI_DEV_(PCIE_REPLAY_COUNTER|VGPU_LICENSE_STATUS)"}}
      - {{action: replace, target_label: team, replacement: nlp}}
      - {{action: labeldrop, regex: "pci_bus_id|device"}}
  - id: platform
    endpoint: {{embedded: true}}
ownership:
  files: [{folder}/node-b.json]
"""

DOCUMENT = {
    "version": 1,
    "revision": 17,
    "node": "gpu-node-b",
    "observed_from": 1767225000000,
    "observed_until": 1767225600000,
    "devices": [
        {
            "uuid": UUID,
            "index": 0,
            "model": "NVIDIA H100 80GB HBM3",
            "memory_total_bytes": 85520809984,
            "sharing": "exclusive",
            "intervals": [
                {
                    "from": 1767225000000,
                    "to": 1767225300000,
                    "owners": [
                        {
                            "pod_uid": "3d0c8f52-94a1-4a0e-8b77-6f1be2b0a001",
                            "namespace": "team-nlp",
                            "pod": "resnet-worker-0",
                            "container": "trainer",
                            "controller_kind": "PyTorchJob",
                            "controller_name": "resnet",
                            "memory_bytes": 25769803776,
                        }
                    ],
                },
                {"from": 1767225300000, "to": None, "owners": []},
            ],
        }
    ],
}

DEVICE = (
    f'{{gpu="0",UUID="{UUID}",pci_bus_id="00000000:4E:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
    'Hostname="gpu-node-b",container="trainer",namespace="team-red",pod="resnet-worker-9"}'
)
LINES = (
    f"DCGM_FI_DEV_GPU_UTIL{DEVICE} 97 {OWNED_MS}",
    f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{DEVICE} 0 {OWNED_MS}",
    f"DCGM_FI_DEV_GPU_UTIL{DEVICE} 0 {IDLE_MS}",
    f"DCGM_FI_DEV_GPU_UTIL{DEVICE} 0 {UNKNOWN_MS}",
    f'up{{job="node"}} 1 {OWNED_MS}',
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with its ownership document."""
    (tmp_path / "node-b.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    path = tmp_path / "demo.yaml"
    path.write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [80, 120])
def test_each_step_is_shown(whosegpu: Command, config: Path, width: int) -> None:
    """An owned, a dropped, an idle, an unknown and an ordinary series, as a person reads them."""
    result = whosegpu("explain", "--config", str(config), *LINES, width=width)
    assert (result.status, result.err) == (0, "")
    assert result.out == (VECTORS / f"explain-{width}.txt").read_text(encoding="utf-8")
    assert max(map(len, result.out.splitlines())) <= width


def test_a_running_proxy_says_the_same(whosegpu: Command, config: Path) -> None:
    """`--url` and `--config` give the same answer, as text and as JSON: the same code decides."""
    here = whosegpu("explain", "--config", str(config), *LINES)
    here_json = whosegpu("explain", "--config", str(config), "--json", *LINES)
    with proxy_process(Workplace(config.parent)) as proxy:
        there = whosegpu("explain", "--url", proxy.url, *LINES)
        there_json = whosegpu("explain", "--url", f"{proxy.url}/", "--json", *LINES)
        piped = spawned("explain", "--url", proxy.url, "-", stdin="\n".join(LINES).encode())
        many = spawned("explain", "--url", proxy.url, "-", "--json", stdin="\n".join(LINES * 100).encode())
        assert proxy.stop() == 0
    assert there == here
    assert there_json == here_json
    assert piped == here
    assert len(json.loads(many.out)["explanations"]) == len(LINES) * 100


def test_json_names_the_fate(whosegpu: Command, config: Path) -> None:
    """`--json` has one explanation a line, in order, with kind, fate and labels out."""
    result = whosegpu("explain", "--config", str(config), "--json", *LINES)
    found = json.loads(result.out)["explanations"]
    assert [each["kind"] for each in found] == ["device", "device", "device", "device", "other"]
    assert [each["fate"]["kind"] for each in found] == ["routed", "routed", "routed", "quarantined", "routed"]
    assert [[tenant["tenant"] for tenant in each["tenants"] if tenant["labels_out"]] for each in found] == [
        ["team-nlp", "platform"],
        ["platform"],
        ["platform"],
        [],
        ["platform"],
    ]


@pytest.mark.parametrize("at", ["1767225000001", "2025-12-31T23:50:00.001Z", "2026-01-01T00:50:00.001+01:00"])
def test_at_is_the_time_of_lines_without_one(whosegpu: Command, config: Path, at: str) -> None:
    """`--at` is as interface 4 writes times; a line's own timestamp goes before it."""
    result = whosegpu(
        "explain", "--config", str(config), "--at", at, f'x{{UUID="{UUID}"}}', f'x{{UUID="{UUID}"}} 1 {IDLE_MS}'
    )
    assert [line.split()[1] for line in result.out.splitlines() if line.startswith("  at ")] == [
        "2025-12-31T23:50:00.001Z",
        "2025-12-31T23:55:00.001Z",
    ]


def test_stdin_may_be_an_exposition(whosegpu: Command, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads lines; comments and empty lines are passed over."""
    text = f"# HELP x y\n# TYPE x gauge\n\n{LINES[0]}\r\n   \n{LINES[4]}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    result = whosegpu("explain", "--config", str(config), "--json", "-")
    assert len(json.loads(result.out)["explanations"]) == 2


MISTAKES = [
    pytest.param(["up{"], 1, "series 1: expected a label name, column 4", id="series"),
    pytest.param(["up", "up\nx y"], 1, "series 2, line 2: expected a value, a number of 64 bits, column 3", id="line"),
    pytest.param(["# up"], 1, "there is no series to explain; give one like 'up{job=\"x\"}'", id="nothing"),
    pytest.param(["{}"], 1, "series 1: a series without __name__: {}", id="nameless"),
    pytest.param(
        ["--at", "noon", "up"],
        1,
        "--at: 'noon' is no time; write RFC 3339 with a zone, like 2026-01-01T12:00:00Z, or milliseconds",
        id="at",
    ),
    pytest.param(
        ["--url", "http://127.0.0.1:1", "up"],
        2,
        "--config decides here and --url asks a proxy; give one of them",
        id="both",
    ),
]


@pytest.mark.parametrize(("arguments", "status", "sentence"), MISTAKES)
def test_mistakes_are_one_sentence(
    whosegpu: Command, config: Path, arguments: list[str], status: int, sentence: str
) -> None:
    """What a person mistypes is told with its place, on stderr."""
    result = whosegpu("explain", "--config", str(config), *arguments)
    assert (result.status, result.out, result.err) == (status, "", f"whosegpu: {sentence}\n")


BAD_FILES = [
    pytest.param("gone", "cannot be read: No such file or directory", id="absent"),
    pytest.param("{}", "version: is missing", id="no-document"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_FILES)
def test_an_ownership_file_of_no_use_is_named(whosegpu: Command, config: Path, text: str, sentence: str) -> None:
    """Without its ownership files an answer would be wrong, so there is none."""
    file = config.parent / "node-b.json"
    file.write_text(text, encoding="utf-8")
    if text == "gone":
        file.unlink()
    result = whosegpu("explain", "--config", str(config), "up")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"whosegpu: the ownership file {file}")
    assert sentence in result.err


def test_a_bad_configuration_is_told_with_lines(whosegpu: Command, config: Path) -> None:
    """Problems of settings and of rules have their lines."""
    config.write_text(config.read_text(encoding="utf-8").replace("action: drop", "action: drip"), encoding="utf-8")
    result = whosegpu("explain", "--config", str(config), "up")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"{config}:10: tenants[0].write_relabel_configs[0]: ")


def test_stdin_that_is_no_text(config: Path) -> None:
    """Bytes that are no text are a sentence, not a traceback."""
    result = spawned("explain", "--config", str(config), "-", stdin=b"up\n\xff")
    assert (result.status, result.err) == (1, "whosegpu: stdin is not UTF-8 text, byte 4\n")


@given(st.lists(st.text(st.characters(exclude_characters="\n"), min_size=1), max_size=20), st.integers(1, 30))
def test_chunks_keep_lines_and_order(lines: list[str], characters: int) -> None:
    """A question is cut between lines only, and no longer than asked unless one line is."""
    texts = list(chunks(lines, characters))
    assert [line for text in texts for line in text.split("\n")] == lines
    assert all(len(text) <= characters or "\n" not in text for text in texts)
