"""The wheel as deploy/Dockerfile builds it: by its own command, from the files that a build of the image is given."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.deploy.dockerfile import ROOT, context_files, stage

COMPILES = os.environ.get("REQUIRE_CYTHON") == "1" or bool(
    (shutil.which("cc") or shutil.which("gcc")) and Path(sysconfig.get_path("include"), "Python.h").exists()
)
"""Whether there is a C compiler; where there is none, a wheel of plain Python is what can be made."""

pytestmark = pytest.mark.timeout(600)

IMPORT_ALL = """
import importlib, pathlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    path = pathlib.Path(importlib.import_module(name).__file__)
    assert path.is_relative_to(sys.argv[1]), f"{name} is {path}"
"""


def _run(command: list[str], folder: Path, **more: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path, "PIP_NO_INDEX": "1"} | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    context, out = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("wheels")
    for file in context_files():
        (context / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, context / file)
    (command,) = (run for run in stage("build").values("RUN") if " pip wheel " in run)
    assert "REQUIRE_CYTHON=1" in command
    assert "/wheels" in command
    command = command.replace("/wheels", str(out)).replace("REQUIRE_CYTHON=1", f"REQUIRE_CYTHON={int(COMPILES)}")
    _run(["/bin/sh", "-c", command], context)
    (made,) = out.glob("whosegpu-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed, and nothing else."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    _run(command, target)
    return target


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_has_all_that_the_packages_have(wheel: Path) -> None:
    """Every module, type stub, schema and example of the packages is in the wheel, and nothing that is not theirs."""
    folders = [source for source in stage("build").copied() if (ROOT / source).is_dir()]
    tree = {file for file in context_files() if file.split("/")[0] in folders}
    assert {name for name in _names(wheel) if not name.endswith(".so")} == tree


@pytest.mark.skipif(not COMPILES, reason="needs a C compiler and Python's headers")
def test_the_wheel_has_the_compiled_modules(wheel: Path) -> None:
    """The image runs the compiled modules: the wheel has them for this interpreter, beside their source."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert {f"proxy/core/{name}{end}" for name in ("fields", "wire") for end in (suffix, ".py")} <= _names(wheel)


def test_every_module_is_imported_from_the_wheel(wheel: Path, installed: Path) -> None:
    """Each module can be imported away from the source tree, from where the wheel put it."""
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sorted(_names(wheel))
        if name.endswith(".py")
    ]
    assert len(modules) > 50
    _run([sys.executable, "-I", "-c", IMPORT_ALL, str(installed), *modules], installed.parent)


def test_the_command_comes_with_the_wheel(installed: Path) -> None:
    """The distribution installs `whosegpu`, and it answers with its version from there."""
    (distribution,) = distributions(path=[str(installed)])
    scripts = {each.name for each in distribution.entry_points if each.group == "console_scripts"}
    assert scripts == {"whosegpu"}
    said = _run([str(installed / "bin/whosegpu"), "--version"], installed.parent, PYTHONPATH=str(installed))
    assert said == f"whosegpu {distribution.version}\n"
