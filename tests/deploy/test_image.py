import json
import re
import tomllib
from pathlib import Path

import pytest

from config.settings import Settings
from tests.deploy.dockerfile import ROOT, context_files, ignored, image, stage, stages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("path", "patterns", "out"),
    [
        ("tests/a.py", ["*"], True),
        ("cli/main.py", ["*", "!cli"], False),
        ("cli/demo/a.pyc", ["*", "!cli", "**/*.pyc"], True),
        ("a.pyc", ["**/*.pyc"], True),
        ("cli/__pycache__/a", ["**/__pycache__"], True),
        ("cli/x/y.c", ["cli/*.c"], False),
        ("requirements/dev.txt", ["*", "!requirements", "requirements/dev.txt"], True),
        ("requirements/dev.txt", ["*", "requirements/dev.txt", "!requirements"], False),
    ],
)
def test_ignoring(path: str, patterns: list[str], out: bool) -> None:  # noqa: FBT001 - a column of the table
    """The last pattern that fits a path or a folder of it decides, as Docker says."""
    assert ignored(path, patterns) is out


def test_a_dockerfile_is_read() -> None:
    """Stages have their base filled in, continued lines are one instruction, comments are none."""
    first, second = stages("# a\nARG A=x:1\nFROM ${A} AS one\nRUN a \\\n    && b\n# c\nFROM one AS two\nCOPY d e /f\n")
    assert (first.name, first.base, first.values("RUN")) == ("one", "x:1", ["a && b"])
    assert (second.base, second.copied()) == ("one", ["d", "e"])


def test_the_target_is_there() -> None:
    """`--target proxy` names a stage, and it is what a build without a target makes too."""
    assert image()[-1].name == "proxy"


def test_all_that_is_copied_exists_and_reaches_the_build() -> None:
    """Each COPY names something of the tree that .dockerignore lets in, and each copied stage is an earlier one."""
    files = context_files()
    names: list[str] = []
    for each in image():
        for source in each.copied():
            assert (ROOT / source).exists(), source
            assert any(file == source or file.startswith(f"{source}/") for file in files), source
        for value in each.values("COPY"):
            if value.startswith("--from="):
                assert value.split()[0].removeprefix("--from=") in names
        names.append(each.name)


def test_nothing_else_reaches_the_build() -> None:
    """The context has what is copied and nothing more: no history, environments, data or compiled leftovers."""
    copied = [source for each in image() for source in each.copied()]
    stray = [
        file for file in context_files() if not any(file == each or file.startswith(f"{each}/") for each in copied)
    ]
    assert stray == []
    assert not [file for file in context_files() if file.endswith((".so", ".pyc", ".c"))]


def test_every_package_is_copied() -> None:
    """The packages of the distribution are copied, and nothing that is none."""
    packages = {name.partition(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]}
    folders = {source for source in stage("build").copied() if (ROOT / source).is_dir()}
    assert folders == packages


def test_the_image_runs_as_a_number() -> None:
    """The last word on the user is a number other than root's, so that runAsNonRoot can be checked."""
    last = stage("proxy").values("USER")[-1]
    match = re.fullmatch(r"(\d+):(\d+)", last)
    assert match, last
    assert 0 not in {int(part) for part in match.groups()}


def test_the_image_starts_the_proxy() -> None:
    """The entry point is the command that the distribution installs, and its arguments are the proxy's."""
    proxy = stage("proxy")
    (entry,) = json.loads(proxy.values("ENTRYPOINT")[0])
    assert entry in PROJECT["project"]["scripts"]
    verb, option, path = json.loads(proxy.values("CMD")[0])
    assert (verb, option) == ("proxy", "--config")
    assert Path(path).is_absolute()
    assert proxy.values("EXPOSE") == [str(Settings().proxy.listen.port)]


def test_nothing_unchecked_is_installed() -> None:
    """Each `pip install` takes hashes, or what was built just before and nothing from elsewhere."""
    runs = [command for each in image() for run in each.values("RUN") for command in run.split(" && ")]
    installs = [command for command in runs if " install " in command and "pip" in command]
    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes" in command or ("--no-index" in command and "--no-deps" in command), command


def test_the_base_image_is_named_without_a_registry() -> None:
    """The default image is a slim Python that the project runs on, and names no host; all stages share it."""
    bases = {each.base for each in image()}
    assert len(bases) == 1
    match = re.fullmatch(r"python:(\d+)\.(\d+)-slim-\w+", bases.pop())
    assert match
    wanted = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert (int(match[1]), int(match[2])) >= tuple(int(part) for part in wanted.split("."))
