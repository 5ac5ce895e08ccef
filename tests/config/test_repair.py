"""One broken place is one problem, wherever it is, and however much leans on it."""

import pytest

from config import repair
from config.load import load, parse
from config.problems import ConfigError
from tests.config.breakages import LEANING, breakages


def test_every_breakage_is_one_problem() -> None:
    """A value of another kind, a misspelt key and a key written twice are one problem each, at their own place."""
    load(LEANING)
    for done, text, where in breakages():
        with pytest.raises(ConfigError) as e:
            parse(text, "f.yaml")
        assert [problem.where for problem in e.value.problems] == [where], done


def test_what_cannot_be_repaired_is_refused_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the rounds are used up, the errors of the values that were seen are told."""
    monkeypatch.setattr(repair, "MAX_ROUNDS", 1)
    with pytest.raises(ConfigError) as e:
        parse("proxy: {workers: x, idle_tenant: nobody}", "f.yaml")
    assert [problem.where for problem in e.value.problems] == ["proxy.workers"]
