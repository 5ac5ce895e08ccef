"""A configuration made ready to run: compiled, secrets read; or refused as a whole, each problem with its line."""

from dataclasses import dataclass
from pathlib import Path

from config.load import Loaded, examine
from config.problems import ConfigError, Fault
from config.reload import needs_restart
from config.settings import Settings
from proxy.core.assemble import RuleProblem, compile_tenancy, rule_problems
from proxy.core.senders import Senders
from proxy.core.tenancy import Tenancy
from proxy.endpoints import Targets, read_senders, read_targets


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
    return make_ready(examine(path), before)


def make_ready(loaded: Loaded, before: Configured | None = None) -> Configured:
    """As `configure`, for what has been loaded, or examined and found to have problems."""
    settings = loaded.settings
    faults: list[Fault] = []
    if before is not None:
        faults += [Fault(place, text) for place, text in needs_restart("proxy", before.settings, settings)]
    senders = read_senders(settings, faults)
    targets = read_targets(settings, faults)
    if loaded.problems:
        tenancy: Tenancy | tuple[RuleProblem, ...] = rule_problems(settings)
    else:
        tenancy = compile_tenancy(settings, before.tenancy if before else None)
    if not isinstance(tenancy, Tenancy):
        faults += [Fault(problem.path, problem.sentence, reads=(problem.path,)) for problem in tenancy]
    elif not faults:
        return Configured(settings, tenancy, senders, targets)
    raise ConfigError([*loaded.problems, *loaded.found(faults)])
