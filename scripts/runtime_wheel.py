"""Make the wheel ``tvm-iree-ext-runtime``: it loads, runs and times artifacts.

    scripts/runtime-wheel [--out DIR]

It holds the same modules as ``tvm-iree-ext``, fewer of them, and needs no compiler. Both
install the folder ``tvm_iree_ext``: an environment has one of the two.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FOR_BUILDING = ("apache-tvm", "rich")  # what only commands and modules need that are left out

# Of tvm_iree_ext: folders, whole, and files.
PARTS = (
    "__init__.py",
    "py.typed",
    "base",
    "runtime",
    "doctor.py",
    "program_checks/__init__.py",
    "program_checks/noise_arguments.py",
    "program_checks/recorded_arrays.py",
    "cli/__init__.py",
    "cli/bench.py",
    "cli/bench_artifact.py",
    "cli/bench_programs.py",
    "cli/doctor.py",
    "cli/main.py",
    "cli/operands.py",
    "cli/parser.py",
    "cli/profile.py",
    "cli/run.py",
)

SETUP = """\
[build-system]
requires = {requires}
build-backend = "setuptools.build_meta"

[project]
name = "{name}-runtime"
dynamic = ["version"]
description = "Loads, runs and times artifacts of {name}: needs no compiler"
requires-python = "{python}"
license = "{license}"
license-files = ["LICENSE"]
dependencies = {dependencies}

[project.scripts]
{name} = "tvm_iree_ext.cli.main:main"

[tool.setuptools]
packages = {packages}

[tool.setuptools.dynamic]
version = {version}

[tool.setuptools.package-data]
"*" = ["py.typed", "**/*.json", "**/*.cpp", "**/*.h"]
"""


def main() -> None:
    """Read the command line, make the wheel, and print its name."""
    parser = argparse.ArgumentParser(prog="scripts/runtime-wheel", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="default: %(default)s")
    print(make(parser.parse_args().out))


def make(out: Path) -> Path:
    """Make the wheel in a folder; returns its file."""
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        lay_out(tree)
        made = Path(temporary) / "made"
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
        done = subprocess.run([*command, made, tree], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        (wheel,) = made.iterdir()
        out.mkdir(parents=True, exist_ok=True)
        partial = out / f".{wheel.name}.part"
        shutil.copyfile(wheel, partial)
        return partial.replace(out / wheel.name)


def lay_out(tree: Path) -> None:
    """Copy the parts into a folder, with a ``pyproject.toml`` made of this clone's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    package = tree / "tvm_iree_ext"
    for part in PARTS:
        source, goal = ROOT / "tvm_iree_ext" / part, package / part
        goal.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, goal, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, goal)
    shutil.copyfile(ROOT / "LICENSE", tree / "LICENSE")
    packages = sorted(
        ".".join(file.parent.relative_to(tree).parts) for file in package.rglob("__init__.py")
    )
    (tree / "pyproject.toml").write_text(
        SETUP.format(**fields(project), packages=json.dumps(packages))
    )


def fields(pyproject: dict[str, Any]) -> dict[str, str]:
    """What the wheel's metadata share with the whole package's."""
    project = pyproject["project"]
    needed = [
        one for one in project["dependencies"] if re.split(r"[^-\w]", one)[0] not in FOR_BUILDING
    ]
    return {
        "requires": json.dumps(pyproject["build-system"]["requires"]),
        "name": project["name"],
        "version": '{ attr = "tvm_iree_ext.base.versions.__version__" }',
        "python": project["requires-python"],
        "license": project["license"],
        "dependencies": json.dumps(needed),
    }


if __name__ == "__main__":
    main()
