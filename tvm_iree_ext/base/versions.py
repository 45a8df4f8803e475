"""The TVM packages that this one works with.

They are a pair: TVM 0.27 with tvm-ffi 0.1.15 ends the process in ``Schedule.tensorize`` and in
structural comparison, so an installation with another pair is refused before it gets there.
"""

import importlib.metadata
import operator
import re
from pathlib import Path

from tvm_iree_ext.base.errors import BuildError

__version__ = "0.1.0"
"""This package's version; a build takes it from here."""

COMPILER = "apache-tvm"
# As in pyproject.toml; a test compares them.
PAIR = {COMPILER: "==0.27.0.post1", "apache-tvm-ffi": ">=0.1.14.post0,<0.1.15"}


def installed(package: str) -> str | None:
    """The version of a package, None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


WHOLE, RUNTIME = "tvm-iree-ext", "tvm-iree-ext-runtime"
"""The distributions that hold this package: with all of it, and with what deployments need."""


def is_runtime_alone() -> bool:
    """Whether this is the part that loads and runs artifacts, and builds none."""
    return not Path(__file__).parents[1].joinpath("api.py").is_file()


_COMPARE = {"==": operator.eq, ">=": operator.ge, "<": operator.lt}


def needed_pair() -> dict[str, str]:
    """The TVM packages that must be here: the pair, or the calling convention alone."""
    is_alone = is_runtime_alone()
    return {name: clauses for name, clauses in PAIR.items() if name != COMPILER or not is_alone}


def check_pair() -> None:
    """Make sure that the installed TVM packages are the pair, or what of it is needed.

    Raises:
        BuildError: when one is missing or of another version; both pip requirements are named.
    """
    pair = needed_pair()
    for package, wanted in pair.items():
        found = installed(package)
        if found is None or not _fits(found, wanted):
            requirements = " ".join(f"'{name}{clauses}'" for name, clauses in pair.items())
            raise BuildError(
                f"{package} is {found or 'not installed'}; expected {wanted}"
                f" (pip install {requirements})"
            )


def _fits(version: str, wanted: str) -> bool:
    """Whether ``version`` satisfies all clauses; enough of PEP 440 for the clauses of PAIR."""
    clauses = (re.fullmatch(r"([=<>]+)(.+)", clause) for clause in wanted.split(","))
    return all(_COMPARE[c[1]](_numbers(version), _numbers(c[2])) for c in clauses if c)


def _numbers(version: str) -> tuple[int, ...]:
    """``0.1.14.post1+cpu`` as (0, 1, 14, 1): without the local part."""
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0]))
