"""Every problem with its line, or what is set up."""

import json
from pathlib import Path

import pytest

from tests.cli.command import VECTORS, Command

GOOD = """\
proxy:
  listen: 0.0.0.0:9009
  senders:
    - {{name: prom-a, bearer_token_file: {token}}}
tenants:
  - id: team-ml
    namespaces: [team-ml, team-ml-staging]
    endpoint: {{url: "https://mimir.example/api/v1/push?secret=x"}}
    write_relabel_configs:
      - {{action: labeldrop, regex: device}}
  - id: platform
    endpoint: {{embedded: true}}
dynamic_tenants:
  endpoint: {{url: "https://mimir.example/api/v1/push"}}
ownership:
  files: [/etc/whosegpu/node-a.json, /etc/whosegpu/node-b.json]
"""

BAD = """\
proxy:
  listen: 127.0.0.1:9009
  idle_tenant: nobody
  limits:
    inflight: 3
tenants:
  - id: team ml
    endpoint: {embedded: true}
  - id: team-nlp
    namespaces: [team-nlp]
    endpoint: {embedded: true}
    write_relabel_configs:
      - {action: keep, regex: "a(b"}
      - {action: replace_all, source_labels: [a]}
"""

RULES = """\
tenants:
  - id: team-nlp
    endpoint:
      url: https://store.example/push
      bearer_token_file: /nowhere/token
    write_relabel_configs:
      - {action: keep, regex: "a(b"}
      - {action: replace_all, source_labels: [a]}
"""


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A good configuration, named from its own folder."""
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("secret\n", encoding="utf-8")
    Path("good.yaml").write_text(GOOD.format(token=tmp_path / "token"), encoding="utf-8")
    return "good.yaml"


@pytest.mark.parametrize("width", [80, 120])
def test_a_good_one_is_summed_up(whosegpu: Command, good: str, width: int) -> None:
    """A good configuration exits 0 and says who may send, which tenants there are, and what rules they have."""
    result = whosegpu("check-config", good, width=width)
    assert (result.status, result.err) == (0, "")
    assert result.out == (VECTORS / f"check-config-{width}.txt").read_text(encoding="utf-8")


def test_a_good_one_as_json(whosegpu: Command, good: str) -> None:
    """`--json` has the same facts, and no query of a URL, which may be a secret."""
    result = whosegpu("check-config", good, "--json")
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out) == {
        "good": True,
        "problems": [],
        "listen": "0.0.0.0:9009",
        "senders": ["prom-a"],
        "tenants": [
            {
                "id": "team-ml",
                "view": "owned",
                "namespaces": ["team-ml", "team-ml-staging"],
                "rules": 1,
                "endpoint": "https://mimir.example/api/v1/push",
            },
            {"id": "platform", "view": "joined", "namespaces": [], "rules": 0, "endpoint": "embedded"},
        ],
        "dynamic_tenants": True,
        "ownership": ["/etc/whosegpu/node-a.json", "/etc/whosegpu/node-b.json"],
    }


@pytest.mark.parametrize(("name", "text"), [("settings", BAD), ("rules", RULES)])
def test_every_problem_with_its_line(
    whosegpu: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """A bad configuration exits 1 and names each problem with its line, then how many there are."""
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(text, encoding="utf-8")
    result = whosegpu("check-config", "bad.yaml")
    assert (result.status, result.out) == (1, "")
    assert result.err == (VECTORS / f"check-config-{name}.txt").read_text(encoding="utf-8")


def test_problems_as_json(whosegpu: Command, tmp_path: Path) -> None:
    """`--json` prints each problem with its line on stdout, and exits 1 all the same."""
    path = tmp_path / "bad.yaml"
    path.write_text("proxy: {}\ntenant: []\n", encoding="utf-8")
    result = whosegpu("check-config", str(path), "--json")
    assert (result.status, result.err) == (1, "")
    assert json.loads(result.out) == {
        "good": False,
        "problems": [
            {"source": str(path), "line": 2, "where": "tenant", "sentence": "is no setting; tenants is"},
        ],
    }


@pytest.mark.parametrize("example", ["small.yaml"])
def test_the_examples_are_good(whosegpu: Command, example: str) -> None:
    """An example that needs no other file can be used as it is."""
    assert whosegpu("check-config", f"config/examples/{example}").status == 0
