"""Where tests' data are, wherever a test is."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
DATA = SUPPORT.parent / "data"
