"""TVM without PyTorch, for processes of this package's own."""

import sys
from typing import Any, cast


def import_tvm() -> None:
    """Import TVM, and not PyTorch: where that is installed, TVM imports it, which takes longer.

    It can be imported afterwards, and its tensors are then taken by DLPack, if more slowly.
    """
    if "tvm" in sys.modules or "torch" in sys.modules:
        return
    modules = cast(dict[str, Any], sys.modules)
    modules["torch"] = None  # absent, in Python's own way
    try:
        import tvm  # noqa: F401
    finally:
        del modules["torch"]
