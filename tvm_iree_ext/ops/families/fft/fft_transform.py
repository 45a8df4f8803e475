"""Whole discrete Fourier transforms, composed of the stages of ``iree_linalg_ext.fft``.

    forward:          X[k] = sum_j x[j] exp(-2 pi i j k / n)
    inverse:          x[j] = 1/n sum_k X[k] exp(2 pi i j k / n)
    real_to_complex:  the forward transform of real x, for k = 0 .. n / 2; the others mirror these
    complex_to_real:  its inverse, from these

along one axis, for all points of the others.  Complex numbers are two buffers, real and imaginary,
as in the dialect.  Beyond the dialect: any length, not powers of two alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, shape_text
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.shapes import named
from tvm_iree_ext.ops.families.fft.fft import common_shape

_NAME = "tvm_iree_ext.fft_transform"

Kind = Literal["forward", "inverse", "real_to_complex", "complex_to_real"]
Norm = Literal["backward", "ortho", "forward"]


@dataclass(frozen=True, eq=False)
class FftTransform(Op):
    """A transform; made by :func:`fft_transform`, which checks it."""

    shape: tuple[Extent, ...]
    """Shape of the inputs."""
    dtype: str
    kind: Kind
    axis: int
    length: int
    norm: Norm

    name = _NAME

    @property
    def compute_dtype(self) -> str:
        """The type of all arithmetic."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def inverse(self) -> bool:
        """Whether the exponent's sign is plus."""
        return self.kind in ("inverse", "complex_to_real")

    @property
    def scale(self) -> float:
        """Factor of the sum."""
        if self.norm == "ortho":
            return 1.0 / math.sqrt(self.length)
        return 1.0 / self.length if (self.norm == "backward") == self.inverse else 1.0

    @property
    def result_length(self) -> int:
        """The extent of the results along the axis."""
        return self.length // 2 + 1 if self.kind == "real_to_complex" else self.length

    @cached_property
    def signature(self) -> Signature:
        """``real, [imag], result_real, [result_imag]``."""
        result = (*self.shape[: self.axis], self.result_length, *self.shape[self.axis + 1 :])
        inputs = ["real"] if self.kind == "real_to_complex" else ["real", "imag"]
        results = ["real"] if self.kind == "complex_to_real" else ["real", "imag"]
        operands = [Operand(name, self.shape, self.dtype) for name in inputs]
        operands += [Operand(f"result_{name}", result, self.dtype, "result") for name in results]
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """Kind, axis, length and norm."""
        return {"kind": self.kind, "axis": self.axis, "length": self.length, "norm": self.norm}

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """The usual measure: 5 n log2(n) a row, half of it where one side is real."""
        rows = 1
        for axis, extent in enumerate(self.shape):
            rows *= 1 if axis == self.axis else resolve(extent, extents)
        flops = 5 * self.length * math.log2(self.length)
        halved = self.kind in ("real_to_complex", "complex_to_real")
        return rows * round(flops / 2 if halved else flops)


def fft_transform(
    real: OperandLike,
    imag: OperandLike | None = None,
    *,
    kind: Kind = "forward",
    axis: int = -1,
    length: int | None = None,
    norm: Norm = "backward",
    dtype: str = "float32",
) -> FftTransform:
    """The Fourier transform of ``real + i * imag`` along an axis.

    Args:
        real, imag: of one shape; shapes (of ``dtype``), :class:`TensorType`, or anything with
            ``shape`` and ``dtype``.  Extents are numbers, names of extents known at call time, or
            ``"?"``; that of ``axis`` is a number.  ``imag`` is absent for ``real_to_complex``, and
            otherwise, when it is left out, taken to be as ``real``.
        kind: ``"forward"``, ``"inverse"``, ``"real_to_complex"`` or ``"complex_to_real"``.
        axis: along which; negative counts from the last.
        length: of the transform: the extent of the axis, but of a ``complex_to_real`` one, where
            an axis of h elements is of length 2 h - 2 (the default) or 2 h - 1.
        norm: where the factor 1 / n is: ``"backward"`` in the inverse, ``"forward"`` in the
            forward one, ``"ortho"`` its root in both.
        dtype: element type of operands given as bare shapes: f32 or f64, or f16 and bf16, which
            are computed in f32.

    Returns:
        The op.  Its kernel takes ``real, [imag]`` and returns ``result_real, [result_imag]``.

    Raises:
        OpError: for a rank, extent, dtype or attribute that does not fit.
    """
    for name, value, allowed in (("kind", kind, Kind), ("norm", norm, Norm)):
        if value not in get_args(allowed):
            known = ", ".join(map(repr, get_args(allowed)))
            raise OpError(f"{_NAME}: {name} is {value!r}; expected one of {known}")
    first = as_tensor(_NAME, "real", real, dtype, dtypes.FLOATS, least=0)
    shape = first.shape
    if imag is not None:
        if kind == "real_to_complex":
            raise OpError(f"{_NAME}: imag came for real_to_complex; its input is real alone")
        second = as_tensor(_NAME, "imag", imag, dtype, dtypes.FLOATS, least=0)
        shape = common_shape(_NAME, first, second)
    rank = len(shape)
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        raise OpError(f"{_NAME}: axis is {axis!r}; expected one of real {shape_text(shape)}")
    axis %= rank
    shape = named(shape)
    extent = shape[axis]
    if isinstance(extent, str):
        raise OpError(
            f"{_NAME}: real axis {axis} has extent {extent!r}; the transformed axis is static"
        )
    if extent == 0:
        raise OpError(f"{_NAME}: real axis {axis} has extent 0; there is no transform of no points")
    return FftTransform(shape, first.dtype, kind, axis, _length(kind, axis, extent, length), norm)


def _length(kind: Kind, axis: int, extent: int, length: object) -> int:
    if kind == "complex_to_real":
        allowed = [one for one in (2 * extent - 2, 2 * extent - 1) if one > 0]
    else:
        allowed = [extent]
    if length is None:
        return allowed[0]
    if length not in allowed or isinstance(length, bool):
        expected = " or ".join(map(str, allowed))
        raise OpError(
            f"{_NAME}: length is {length!r}; expected {expected} for axis {axis} of {extent}"
        )
    return int(str(length))
