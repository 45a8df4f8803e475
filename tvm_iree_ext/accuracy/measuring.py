"""Errors of our functions and of peers', measured."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_iree_ext.accuracy.built_functions import built_functions
from tvm_iree_ext.accuracy.exact_values import ExactValues, exact_values, result_errors
from tvm_iree_ext.accuracy.functions import TYPES, MathFunction
from tvm_iree_ext.accuracy.number_format import number_format
from tvm_iree_ext.accuracy.peers import peer_functions
from tvm_iree_ext.accuracy.samples import samples
from tvm_iree_ext.base.dtypes import canonical
from tvm_iree_ext.base.errors import AccuracyError
from tvm_iree_ext.targets.names import TargetLike

OURS = "ours"


@dataclass(frozen=True)
class LibraryErrors:
    """The errors of one library's function.

    Attributes:
        most: units in the last place, at most.
        place: the operands where that is so.
        wrong: how many special results, or signs, are not as IEEE 754 and C have them.
        wrong_place: operands where that is so, if any.
        units: the error at each operand.
    """

    most: float
    place: tuple[float, ...]
    wrong: int
    wrong_place: tuple[float, ...] | None
    units: np.ndarray = field(repr=False, compare=False)


@dataclass(frozen=True)
class MeasuredFunction:
    """A function of a type: its promised bound, if any, and the errors of each library."""

    name: str
    dtype: str
    bound: float | None
    operands: tuple[np.ndarray, ...] = field(repr=False, compare=False)
    errors: dict[str, LibraryErrors]

    @property
    def keeps_bound(self) -> bool:
        """Whether ours is within the bound, and right at special values; without one, so."""
        ours = self.errors[OURS]
        return self.bound is None or (ours.most <= self.bound and not ours.wrong)


def measured_type(dtype: str) -> str:
    """The canonical name of a type that is measured.

    Raises:
        AccuracyError: for another.
    """
    name = canonical(dtype)
    if name not in TYPES:
        raise AccuracyError(f"accuracy: type {dtype!r} is none of {', '.join(TYPES)}")
    return name


def measure(
    functions: Sequence[MathFunction],
    dtype: str,
    target: TargetLike = "llvm",
    *,
    count: int = 20_000,
    with_peers: bool = True,
) -> Iterator[MeasuredFunction]:
    """Measure functions of a type, one after another.

    Args:
        functions: those of :data:`.functions.FUNCTIONS` that are measured.
        dtype: a type of :data:`.functions.TYPES`.
        target: a CPU's that this machine runs.
        count: samples of each, but where all numbers of the type are taken.
        with_peers: whether NumPy, PyTorch and JAX are measured, too.

    Raises:
        AccuracyError: for another type or target, and where mpmath is needed and not installed.
    """
    dtype = measured_type(dtype)
    ours, form = built_functions(functions, dtype, target), number_format(dtype)
    for function in functions:
        operands = samples(dtype, function.operands, count)
        exact = exact_values(function, operands, form)

        def errors_of(
            run: Callable[..., np.ndarray],
            operands: tuple[np.ndarray, ...] = operands,
            exact: ExactValues = exact,
        ) -> LibraryErrors:
            errors = result_errors(run(*operands), exact, form)
            wrong = np.flatnonzero(errors.is_wrong)
            return LibraryErrors(
                float(errors.units.max()),
                _at(operands, int(errors.units.argmax())),
                wrong.size,
                _at(operands, int(wrong[0])) if wrong.size else None,
                errors.units,
            )

        libraries = {OURS: ours[function.name]}
        if with_peers:
            libraries |= peer_functions(function)
        errors = {library: errors_of(run) for library, run in libraries.items()}
        yield MeasuredFunction(function.name, dtype, function.bounds.get(dtype), operands, errors)


def _at(operands: Sequence[np.ndarray], place: int) -> tuple[float, ...]:
    return tuple(float(operand[place]) for operand in operands)
