"""The marker ``peer``: a test that needs real peers runs where they have been built.

Elsewhere it is deselected, and the last lines of the run name what did not run and the command that brings it. With
``WHOSEGPU_PEERS=required`` in the environment, as in CI, such a test fails instead.
"""

import os
from collections import Counter
from collections.abc import Generator

import pytest

from tests.peers.registry import COMMAND, missing

_NOT_RUN = pytest.StashKey[Counter[tuple[str, ...]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", "peer(program, ...): needs these real peers (`make peers` builds them)")
    config.stash[_NOT_RUN] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes out the tests whose peers are missing, unless they are required; a misspelt peer ends the run."""
    lacking = {item: _lacking(item) for item in items}
    if _required():
        return
    config.stash[_NOT_RUN].update(programs for programs in lacking.values() if programs)
    out = [item for item, programs in lacking.items() if programs]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item, programs in lacking.items() if not programs]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test whose peers are missing where they are required; elsewhere none is left by now."""
    programs = _lacking(item)
    if programs:
        pytest.fail(f"not built: {', '.join(programs)}; `{COMMAND}` brings them", pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Names what did not run, below everything else that the run prints."""
    yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    not_run = session.config.stash[_NOT_RUN]
    if terminal is None or not not_run:
        return
    for programs, count in sorted(not_run.items()):
        terminal.write_line(
            f"Not run: {count} test{'s' * (count > 1)} with a real {', '.join(programs)}, not built here."
        )
    terminal.write_line(f"`{COMMAND}` brings them (it needs Go; about a quarter of an hour the first time).")


def _required() -> bool:
    return os.environ.get("WHOSEGPU_PEERS") == "required"


def _lacking(item: pytest.Item) -> tuple[str, ...]:
    try:
        return missing(program for mark in item.iter_markers("peer") for program in mark.args)
    except KeyError as error:
        raise pytest.UsageError(f"{item.nodeid}: there is no peer {error}") from error
