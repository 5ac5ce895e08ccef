"""A configuration made ready to run: compiled, secrets read; or refused as a whole, each problem with its line."""

from dataclasses import dataclass
from pathlib import Path

from config.load import Loaded, load
from config.problems import ConfigError, Problem
from config.reload import needs_restart
from config.settings import Settings
from proxy.core.assemble import compile_tenancy
from proxy.core.senders import Senders
from proxy.core.tenancy import Tenancy
from proxy.endpoints import EndpointProblem, Targets, read_senders, read_targets


@dataclass(frozen=True, slots=True)
class Configured:
    """What the proxy runs by."""

    settings: Settings
    tenancy: Tenancy
    senders: Senders
    targets: Targets


def configure(path: Path, before: Configured | None = None) -> Configured:
    """The configuration in a file. Raises ConfigError with every problem.

    With `before`, the one that runs now, a change of what cannot change in a running process is a problem too.
    """
    return make_ready(load(path), before)


def make_ready(loaded: Loaded, before: Configured | None = None) -> Configured:
    """As `configure`, for what has been loaded."""
    settings = loaded.settings
    problems: list[Problem] = []
    if before is not None:
        problems += [loaded.problem(place, text) for place, text in needs_restart("proxy", before.settings, settings)]
    tenancy = compile_tenancy(settings, before.tenancy if before else None)
    found: list[EndpointProblem] = []
    senders = read_senders(settings, found)
    targets = read_targets(settings, found)
    problems += [loaded.problem(problem.path, problem.sentence) for problem in found]
    if isinstance(tenancy, Tenancy):
        if problems:
            raise ConfigError(_in_order(problems))
        return Configured(settings, tenancy, senders, targets)
    problems += [loaded.problem(problem.path, problem.sentence) for problem in tenancy]
    raise ConfigError(_in_order(problems))


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.line or 0)
