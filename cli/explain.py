"""`whosegpu explain`: the decision on a series, by a running proxy or by a configuration file; the same code decides.

Lines are read here first, so that a mistake in one of many is told with its number, wherever the decision is made.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from cli.asking import DEFAULT_URL, ProxyApi
from cli.errors import CommandError, WrongUsageError, unusable
from cli.fleet_by_files import fleet_by_files
from config.load import load
from config.problems import ConfigError
from proxy.clock import now_ms
from proxy.core.assemble import compile_tenancy
from proxy.core.errors import ProxyError, TextFormatError
from proxy.core.explain import Explanation, explain
from proxy.core.senders import anonymous
from proxy.core.text import TextSample, parse_line
from proxy.core.times import parse_time

INPUT_BYTES: Final = 64 << 20  # an exporter's exposition has 1 MB
QUESTION_CHARACTERS: Final = 50_000  # a proxy takes questions of 100,000

Explanations = list[Explanation]


@dataclass(frozen=True, slots=True)
class Question:
    """What was typed. `series` are lines, or `-` for stdin; `config` decides here, else the proxy at `url` is asked."""

    series: tuple[str, ...]
    at: str | None = None
    config: Path | None = None
    url: str | None = None
    token_file: Path | None = None


def explain_series(question: Question, *, as_json: bool) -> int:
    """Print the explanations; the exit status. Raises CommandError."""
    found = explanations(question)
    if as_json:
        from cli.terminal import print_json

        print_json({"explanations": [each.to_json() for each in found]})
    else:
        _show(found, question)
    return 0


def _show(found: Explanations, question: Question) -> None:
    from cli.explain_view import rendered
    from cli.terminal import console

    out = console()
    try:
        shown = rendered(found, out.width)
    except (ProxyError, KeyError, TypeError, AttributeError) as error:
        if question.config is not None:
            raise
        raise _another_answer(question.url or DEFAULT_URL) from error
    for line in shown:
        out.print(line, soft_wrap=True)


def _another_answer(url: str) -> CommandError:
    return CommandError(f"{url} answers something else; is it a whosegpu proxy of this version?")


def explanations(question: Question) -> Explanations:
    """One for each line. Raises CommandError."""
    if question.config is not None and (question.url is not None or question.token_file is not None):
        raise WrongUsageError("--config decides here and --url asks a proxy; give one of them")
    at_ms = None if question.at is None else _time(question.at)
    lines = list(samples(question.series))
    if not lines:
        raise CommandError("there is no series to explain; give one like 'up{job=\"x\"}'")
    if question.config is not None:
        return _decided_here(lines, now_ms() if at_ms is None else at_ms, question.config)
    api = ProxyApi(question.url or DEFAULT_URL, question.token_file)
    return _asked([text for _, text, _ in lines], at_ms, api)


def samples(arguments: Sequence[str]) -> Iterator[tuple[str, str, TextSample]]:
    """Each line: where it stands, its text, and what it says. Raises CommandError with the place of a bad one."""
    for position, argument in enumerate(arguments, 1):
        name = "stdin" if argument == "-" else f"series {position}"
        text = _stdin() if argument == "-" else argument
        several = argument == "-" or "\n" in argument
        for number, line in enumerate(text.split("\n"), 1):
            stripped = line.strip()
            if stripped and not stripped.startswith("#"):
                where = f"{name}, line {number}" if several else name
                try:
                    yield where, stripped, parse_line(stripped)
                except ProxyError as error:
                    raise CommandError(f"{where}: {error}") from error


def _stdin() -> str:
    raw = sys.stdin.buffer.read(INPUT_BYTES + 1)
    if len(raw) > INPUT_BYTES:
        raise CommandError(f"stdin has more than {INPUT_BYTES} bytes; give fewer lines")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"stdin is not UTF-8 text, byte {error.start + 1}") from error


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except TextFormatError as error:
        raise CommandError(f"--at: {error}") from error


def _asked(lines: list[str], at_ms: int | None, api: ProxyApi) -> Explanations:
    adapter = TypeAdapter(Explanations)
    found: Explanations = []
    for series in chunks(lines, QUESTION_CHARACTERS):
        answer = api.post("/api/v1/explain", {"series": series, "at": None if at_ms is None else str(at_ms)})
        try:
            found += adapter.validate_python(answer["explanations"])
        except (KeyError, TypeError, ValidationError) as error:
            raise _another_answer(api.url) from error
    return found


def chunks(lines: Sequence[str], characters: int) -> Iterator[str]:
    """The lines in order, joined into texts of at most that many characters; a longer line stands alone."""
    text = ""
    for line in lines:
        if text and len(text) + 1 + len(line) > characters:
            yield text
            text = ""
        text = f"{text}\n{line}" if text else line
    if text:
        yield text


def _decided_here(lines: list[tuple[str, str, TextSample]], at_ms: int, config: Path) -> Explanations:
    try:
        loaded = load(config)
    except ConfigError as error:
        raise unusable(error) from error
    tenancy = compile_tenancy(loaded.settings)
    if isinstance(tenancy, tuple):
        raise unusable(ConfigError(loaded.problem(found.path, found.sentence) for found in tenancy))
    fleet = fleet_by_files(loaded.settings)
    trust = anonymous(loaded.settings.ownership.trusted_jobs).trust
    found: Explanations = []
    for where, _, sample in lines:
        time_ms = at_ms if sample.at_ms is None else sample.at_ms
        try:
            found.append(explain(sample.labels, time_ms, trust, tenancy, fleet))
        except ProxyError as error:
            raise CommandError(f"{where}: {error}") from error
    return found
