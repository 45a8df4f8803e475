"""Lays the package out as it is installed, of links: schedules/ and tuning/ inside tvm_iree_ext.

Type checkers and editors follow folders, and not the import hook of an editable install.

    source_tree.py FOLDER        what pyproject.toml maps, in FOLDER, and a line for it in .venv
"""

import shutil
import sys
import sysconfig
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def lay_out(root: Path, stage: Path) -> None:
    """Fill ``stage`` with links to the packages of ``root``, where they are installed."""
    shutil.rmtree(stage, ignore_errors=True)
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    for package, folder in sorted(settings["package-dir"].items()):
        there = stage.joinpath(*package.split("."))
        there.mkdir(parents=True)
        for entry in (root / folder).iterdir():
            (there / entry.name).symlink_to(entry)


def main() -> None:
    stage = Path(sys.argv[1]).resolve()
    lay_out(ROOT, stage)
    line = Path(sysconfig.get_path("purelib")) / "tvm_iree_ext_source.pth"
    line.write_text(f"{stage}\n")


if __name__ == "__main__":
    main()
