"""The generated modules are what the .proto files say."""

import sys
from pathlib import Path
from subprocess import run

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted(path.relative_to(ROOT) for path in ROOT.glob("proto/*/*.proto"))


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_generated_modules_match_their_source(tmp_path: Path, source: Path) -> None:
    """`make proto` would change nothing."""
    arguments = ["-I", ".", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", str(source)]
    run([sys.executable, "-m", "grpc_tools.protoc", *arguments], cwd=ROOT, check=True)
    for suffix in ("_pb2.py", "_pb2.pyi"):
        generated = source.with_name(source.stem + suffix)
        assert (ROOT / generated).read_text() == (tmp_path / generated).read_text()
