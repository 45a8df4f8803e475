"""For an operation that is not supported: the nearest that is."""

import difflib
from collections.abc import Sequence

_HINTS = {
    "cf.br": "a function of one block, with scf.while or scf.if",
    "cf.cond_br": "a function of one block, with scf.if",
    "scf.forall": "scf.for",
    "scf.parallel": "linalg.generic",
    "scf.execute_region": "its operations in its place",
    "util.global.load.indirect": "util.global.load",
    "util.global.store.indirect": "util.global.store",
    "flow.dispatch": "the IR before dispatches are formed",
    "flow.dispatch.region": "the IR before dispatches are formed",
    "affine.load": "memref.load",
    "affine.store": "memref.store",
    "affine.for": "scf.for",
    "vector.transfer_read": "tensor.extract_slice",
}


def nearest(name: str, supported: Sequence[str]) -> str:
    """The end of a sentence: what is supported instead, or nothing."""
    if name in _HINTS:
        return f"; instead: {_HINTS[name]}"
    dialect = name.split(".", 1)[0]
    if dialect in ("stablehlo", "chlo", "torch"):
        option = "torch" if dialect == "torch" else "stablehlo"
        return f"; instead: what IREE's input pipeline makes of it (--input {option})"
    if dialect in ("tosa", "onnx"):
        return "; instead: what IREE's input pipeline makes of it"
    close = difflib.get_close_matches(name, supported, 1, 0.6)
    if close:
        return f"; the nearest that is: {close[0]}"
    if not any(one.startswith(f"{dialect}.") for one in supported):
        return f"; nothing of the dialect {dialect} is"
    return ""
