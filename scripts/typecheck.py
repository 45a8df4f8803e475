"""Runs mypy on the package as it is installed: schedules/ and tuning/ inside tvm_iree_ext.

At the root of the clone mypy sees no ``tvm_iree_ext.schedules`` and skips it without a word.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from source_tree import ROOT, lay_out


def main() -> int:
    parser = argparse.ArgumentParser(description="Type-check the package as it is installed.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the clone (default: this one)")
    root = parser.parse_args().root.resolve()
    stage = root / ".cache" / "typecheck"
    lay_out(root, stage)
    (stage / "scripts").symlink_to(root / "scripts")
    command = [sys.executable, "-m", "mypy", "tvm_iree_ext", "scripts"]
    command += ["--config-file", str(root / "pyproject.toml")]
    command += ["--cache-dir", str(root / ".mypy_cache")]
    return subprocess.run(command, cwd=stage).returncode


if __name__ == "__main__":
    sys.exit(main())
