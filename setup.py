"""Compiles the hot modules (COMPILED) where Cython and a C compiler are found; all else stands in pyproject.toml.

`REQUIRE_CYTHON=1` makes a failed compile fatal; `SKIP_CYTHON=1` builds plain Python. Otherwise a failed compile prints
one line, and the modules run as plain Python: slower, same answers.
"""

import os
import sys

from setuptools import Extension, setup

COMPILED = ["proxy/core/fields.py", "proxy/core/wire.py"]
REQUIRED = os.environ.get("REQUIRE_CYTHON") == "1"


def extensions() -> list[Extension]:
    """The compiled modules, none where they are not wanted or cannot be translated to C."""
    if os.environ.get("SKIP_CYTHON") == "1":
        return []
    try:
        from Cython.Build import cythonize  # noqa: PLC0415 (Cython may be absent)

        modules: list[Extension] = cythonize(COMPILED, build_dir="build", language_level=3)
    except Exception as e:
        if REQUIRED:
            raise
        print(f"whosegpu: proxy/core/wire and fields stay plain Python: {e}", file=sys.stderr)
        return []
    for module in modules:
        # setuptools then says 'building extension "proxy.core.wire" failed: ...' and goes on.
        module.optional = not REQUIRED
    return modules


setup(ext_modules=extensions())
