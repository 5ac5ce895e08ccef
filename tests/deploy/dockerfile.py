"""A Dockerfile and its .dockerignore, read as far as the tests need: stages, instructions, and what may be copied."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The root of the repository, which is the build context."""

_INSTRUCTION = re.compile(r"([A-Z]+)\s+(.*)", re.DOTALL)
_FROM = re.compile(r"(\S+)\s+AS\s+(\S+)", re.IGNORECASE)
_CONTINUED = re.compile(r"\\\n\s*")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; a continued one has its lines joined."""

    keyword: str
    value: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A build stage: `base` is an image, with the ARGs before the first stage filled in."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def values(self, keyword: str) -> list[str]:
        """The values of all instructions of one kind, in order."""
        return [each.value for each in self.instructions if each.keyword == keyword]

    def copied(self) -> list[str]:
        """The sources that are copied from the build context."""
        lists = [value.split() for value in self.values("COPY") if not value.startswith("--from=")]
        return [source for words in lists for source in words[:-1]]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, in order."""
    arguments: dict[str, str] = {}
    found: list[tuple[str, str, list[Instruction]]] = []
    for each in _instructions(text):
        if each.keyword == "FROM":
            match = _FROM.fullmatch(each.value)
            assert match, f"a stage without a name: {each.value}"
            found.append((match[2], _filled(match[1], arguments), []))
        elif found:
            found[-1][2].append(each)
        else:
            assert each.keyword == "ARG", each
            name, _, default = each.value.partition("=")
            arguments[name] = default
    return [Stage(name, base, tuple(inside)) for name, base, inside in found]


def _instructions(text: str) -> Iterator[Instruction]:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for line in _CONTINUED.sub("", "\n".join(lines)).splitlines():
        match = _INSTRUCTION.fullmatch(line.strip())
        assert match, f"no instruction: {line}"
        yield Instruction(match[1], match[2].strip())


def _filled(text: str, arguments: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], text)


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether a .dockerignore keeps a path out of the context: the last pattern that fits it or a folder of it."""
    parents = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
    out = False
    for pattern in patterns:
        rule = _regex(pattern.removeprefix("!").strip("/"))
        if any(rule.fullmatch(parent) for parent in parents):
            out = not pattern.startswith("!")
    return out


def ignore_patterns(text: str) -> list[str]:
    """The patterns of a .dockerignore."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _regex(pattern: str) -> re.Pattern[str]:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern)))


def context_files() -> list[str]:
    """The files that a build from this tree is given, relative to its root."""
    patterns = ignore_patterns((ROOT / ".dockerignore").read_text(encoding="utf-8"))
    tops = [top for top in sorted(ROOT.iterdir()) if not ignored(top.name, patterns)]
    files = [file for top in tops for file in ([top] if top.is_file() else sorted(top.rglob("*"))) if file.is_file()]
    paths = [file.relative_to(ROOT).as_posix() for file in files]
    return [path for path in paths if not ignored(path, patterns)]


def image() -> list[Stage]:
    """The stages of deploy/Dockerfile."""
    return stages((ROOT / "deploy/Dockerfile").read_text(encoding="utf-8"))


def stage(name: str) -> Stage:
    """One stage of deploy/Dockerfile."""
    return next(each for each in image() if each.name == name)
