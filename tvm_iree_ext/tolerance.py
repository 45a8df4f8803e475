"""How far a result may be from what is expected."""

from dataclasses import dataclass

from tvm_iree_ext.dtypes import canonical, is_dtype


@dataclass(frozen=True)
class Tolerance:
    """``abs(got - want) <= absolute + relative * abs(want)``; both 0 means exact."""

    absolute: float
    relative: float


EXACT = Tolerance(0.0, 0.0)

# For the results of a whole program, whose sums another order of addition changes.
_PROGRAM = {
    "float64": Tolerance(1e-8, 1e-7),
    "complex128": Tolerance(1e-8, 1e-7),
    "float32": Tolerance(1e-5, 1e-4),
    "complex64": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(1e-3, 5e-3),
    "bfloat16": Tolerance(1e-2, 3e-2),
}


def of_dtype(dtype: str) -> Tolerance:
    """The tolerance of a program's result of this type; integers and bools are exact."""
    return _PROGRAM.get(canonical(dtype) if is_dtype(dtype) else dtype, EXACT)
