"""C and C++ of tests, compiled by the system's compiler."""

import shutil
import subprocess

import pytest


def compile_native(language, *command):
    """By the system's compiler: that of ziglang builds its C++ library first, for minutes."""
    names = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}[language]
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        pytest.skip(f"no {language} compiler: {', '.join(names)}")
    done = subprocess.run([compiler, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
