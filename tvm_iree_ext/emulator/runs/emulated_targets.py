"""Which targets are emulated here; asked by who executes nothing, too."""

from importlib.util import find_spec

from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.emulator.amd.chips import CHIPS

KINDS = ("rocm", "cuda")
"""The kinds of target that have an emulator."""


def emulated_obstacle(kind: str, chip: str, *, builds: bool = False) -> str:
    """Why kernels of a target are not emulated, for a message; empty where they are.

    With ``builds`` they are to be built first, for which PTX needs NVRTC.
    """
    if kind not in KINDS:
        return f"target {kind} is not emulated; {' and '.join(KINDS)} are"
    if kind == "cuda" and builds and (why := nvrtc_obstacle()):
        return f"target cuda:{chip} is emulated by its PTX: {why}"
    if kind == "rocm" and find_spec("tinygrad") is None:
        return f"target rocm:{chip} is emulated by tinygrad's tables; install tvm-iree-ext[emulate]"
    if kind == "rocm" and chip not in CHIPS:
        return f"target rocm:{chip} is not emulated; of rocm {', '.join(CHIPS)} are"
    return ""
