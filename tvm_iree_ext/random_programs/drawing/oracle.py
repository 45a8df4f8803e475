"""Expected results of a web, and the difference of given ones from them."""

from collections.abc import Sequence

import numpy as np

from tvm_iree_ext.base.tolerance import SLACK
from tvm_iree_ext.random_programs.drawing.values import BoundedArray
from tvm_iree_ext.random_programs.drawing.vocabulary import meaning
from tvm_iree_ext.random_programs.drawing.web import Web


def expected(web: Web) -> list[BoundedArray]:
    """The results of a web, with the bounds of their errors."""
    values = meaning(web)
    return [values[one] for one in web.results]


def difference(wanted: Sequence[BoundedArray], given: Sequence[np.ndarray]) -> str:
    """The first result that is wrong, and its first wrong element; empty where none is."""
    if len(wanted) != len(given):
        return f"{len(given)} results; expected {len(wanted)}"
    for place, (want, got) in enumerate(zip(wanted, given, strict=True)):
        if said := _of_one(f"result {place}", want, np.asarray(got)):
            return said
    return ""


def _of_one(name: str, want: BoundedArray, got: np.ndarray) -> str:
    if got.shape != want.data.shape:
        return f"{name} has the shape {got.shape}; expected {want.type}"
    if want.is_float:
        with np.errstate(all="ignore"):
            wrong = ~(np.abs(got.astype("float64") - want.data) <= SLACK * want.error)
    else:
        if {got.dtype.kind, want.data.dtype.kind} == {"i", "u"}:  # MLIR's have no sign
            got = got.view(want.data.dtype) if got.itemsize == want.data.itemsize else got
        wrong = got != want.data
    if not np.any(wrong):
        return ""
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    bound = f" within {SLACK * want.error[index]:.3g}" if want.is_float else ""
    return (
        f"{name}{list(index) or ''} of {want.type} is {got[index]!s}; expected"
        f" {want.data[index]!s}{bound}; {np.count_nonzero(wrong)} of {wrong.size} are wrong"
    )
