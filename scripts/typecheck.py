"""Runs mypy on the package as it is installed: schedules/ and tuning/ inside tvm_iree_ext.

At the root of the clone mypy sees no ``tvm_iree_ext.schedules`` and skips it without a word.  So
this lays out the installed tree, of links, by the mapping in pyproject.toml, and runs mypy there.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def lay_out(root: Path, stage: Path) -> None:
    """Fill ``stage`` with links to ``root``: the packages where they are installed, and scripts."""
    shutil.rmtree(stage, ignore_errors=True)
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    for package, folder in sorted(settings["package-dir"].items()):
        there = stage.joinpath(*package.split("."))
        there.mkdir(parents=True)
        for entry in (root / folder).iterdir():
            (there / entry.name).symlink_to(entry)
    (stage / "scripts").symlink_to(root / "scripts")


def main() -> int:
    parser = argparse.ArgumentParser(description="Type-check the package as it is installed.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the clone (default: this one)")
    root = parser.parse_args().root.resolve()
    stage = root / ".cache" / "typecheck"
    lay_out(root, stage)
    command = [sys.executable, "-m", "mypy", "tvm_iree_ext", "scripts"]
    command += ["--config-file", str(root / "pyproject.toml")]
    command += ["--cache-dir", str(root / ".mypy_cache")]
    return subprocess.run(command, cwd=stage).returncode


if __name__ == "__main__":
    sys.exit(main())
