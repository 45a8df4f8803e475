"""``iree_linalg_ext.fft``: one Cooley-Tukey butterfly stage along the innermost dim.

With m = 2^stage and h = m / 2, for every row a, every block k = 0, m, 2m, ... and j in [0, h):

    w = real_coeff[j] + i * imag_coeff[j]      or, without coefficients, exp(-2 pi i j / m)
    t = w * a[k + j + h];   u = a[k + j];   a'[k + j] = u + t;   a'[k + j + h] = u - t

Stages 1 .. log2(n) on a bit-reversed row give its forward DFT; nothing is reordered here.  For
whole transforms see :mod:`tvm_iree_ext.ops.fft_transform`, which runs many stages at once.

Differences to the dialect: the in/out operands ``real`` and ``imag`` are two each (an init and a
result), because TensorIR can bind a block's loops only when it does not write what it reads.  The
dialect leaves the coefficients' extent and m <= n unchecked; here they are checked, when the op is
made or, where the stage or an extent is known only then, when the kernel is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, TensorType, shape_text
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.shapes import named

_NAME = "iree_linalg_ext.fft"

Stage = int | Literal["operand"]


@dataclass(frozen=True, eq=False)
class Fft(Op):
    """A butterfly stage; made by :func:`fft`, which checks it."""

    shape: tuple[Extent, ...]
    dtype: str
    stage: Stage
    coefficients: Extent | None
    """The extent of the coefficient operands, where there are such."""

    name = _NAME

    @property
    def compute_dtype(self) -> str:
        """The type of products and sums."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def length(self) -> Extent:
        """The innermost extent."""
        return self.shape[-1]

    @cached_property
    def signature(self) -> Signature:
        """``[stage], [real_coeff, imag_coeff], real_init, imag_init, real, imag``."""
        operands = []
        if self.stage == "operand":
            operands.append(Operand("stage", (), "int64", "scalar"))
        if self.coefficients is not None:
            shape = (self.coefficients,)
            operands += [Operand(f"{part}_coeff", shape, self.dtype) for part in _PARTS]
        operands += [Operand(f"{part}_init", self.shape, self.dtype) for part in _PARTS]
        operands += [Operand(part, self.shape, self.dtype, "result") for part in _PARTS]
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """The stage, or ``"operand"``."""
        return {"stage": self.stage}

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Ten for each butterfly: a complex product and two complex sums."""
        count = 1
        for extent in self.shape:
            count *= resolve(extent, extents)
        return 5 * count


_PARTS = ("real", "imag")
_MOST_STAGES = 62  # of an extent in 64 bits with a sign


def fft(
    real: OperandLike,
    imag: OperandLike,
    real_coeff: OperandLike | None = None,
    imag_coeff: OperandLike | None = None,
    *,
    stage: Stage,
    dtype: str = "float32",
) -> Fft:
    """One butterfly stage on the rows of ``real + i * imag``.

    Args:
        real, imag: of one shape ``[..., n]`` with n a power of two; all leading dims are batch.
            Shapes (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and ``dtype``.
            Extents are numbers, names of extents known at call time, or ``"?"``.
        real_coeff, imag_coeff: both or neither: the twiddle factors, of extent 2^(stage - 1).
        stage: a number from 1 to log2(n), or ``"operand"`` for one that the kernel takes as its
            first argument.
        dtype: element type of operands given as bare shapes: f32 or f64, or f16 and bf16, which
            are computed in f32.

    Returns:
        The op.  Its kernel takes ``[stage], [coefficients], real_init, imag_init``.

    Raises:
        OpError: for a rank, extent, dtype or stage that does not fit.
    """
    types = {
        name: as_tensor(_NAME, name, operand, dtype, dtypes.FLOATS, least=0)
        for name, operand in zip(_PARTS, (real, imag), strict=True)
    }
    if not types["real"].shape:
        raise OpError(f"{_NAME}: real has rank 0; expected at least the dim to transform")
    shape = named(common_shape(_NAME, types["real"], types["imag"]))
    dtype = types["real"].dtype
    length = shape[-1]
    if isinstance(length, int) and length & (length - 1):
        raise OpError(f"{_NAME}: real has innermost extent {length}; expected a power of two")
    _check_stage(stage, length)
    if (real_coeff is None) != (imag_coeff is None):
        given, missing = _PARTS if imag_coeff is None else _PARTS[::-1]
        raise OpError(
            f"{_NAME}: {given}_coeff came without {missing}_coeff; inputs are the stage alone, or"
            " the stage and both coefficient operands"
        )
    coefficients = None
    if real_coeff is not None:
        coefficients = _coefficients(real_coeff, imag_coeff, stage, dtype)
    return Fft(shape, dtype, stage, coefficients)


def common_shape(op: str, real: TensorType, imag: TensorType) -> tuple[Extent, ...]:
    """The shape of both parts; a number and a name on one axis make the number."""
    if real.dtype != imag.dtype:
        raise OpError(f"{op}: imag has dtype {imag.dtype}; expected {real.dtype} as for real")
    fits = len(real.shape) == len(imag.shape) and all(
        isinstance(a, str) or isinstance(b, str) or a == b
        for a, b in zip(real.shape, imag.shape, strict=True)
    )
    if not fits:
        raise OpError(
            f"{op}: imag has shape {shape_text(imag.shape)};"
            f" expected {shape_text(real.shape)} as for real"
        )
    pairs = zip(real.shape, imag.shape, strict=True)
    return tuple(b if isinstance(b, int) or a == "?" else a for a, b in pairs)


def _check_stage(stage: object, length: Extent) -> None:
    if stage == "operand":
        return
    if not isinstance(stage, int) or isinstance(stage, bool) or stage < 1:
        raise OpError(f"{_NAME}: stage is {stage!r}; expected a number from 1, or 'operand'")
    if stage > _MOST_STAGES:
        raise OpError(f"{_NAME}: stage is {stage}; an extent has at most {_MOST_STAGES}")
    if isinstance(length, int) and 2**stage > length:
        raise OpError(
            f"{_NAME}: stage is {stage}, of blocks of {2**stage}; the innermost extent is {length}"
        )


def _coefficients(real: OperandLike, imag: OperandLike, stage: Stage, dtype: str) -> Extent:
    """The extent of the coefficient operands."""
    extents: list[Extent] = []
    for part, operand in zip(_PARTS, (real, imag), strict=True):
        kind = as_tensor(_NAME, f"{part}_coeff", operand, dtype, dtypes.FLOATS)
        if len(kind.shape) != 1 or kind.dtype != dtype:
            raise OpError(
                f"{_NAME}: {part}_coeff is {kind.dtype}{shape_text(kind.shape)};"
                f" expected {dtype} of rank 1"
            )
        extents.append(kind.shape[0])
    for part, extent in zip(_PARTS, extents, strict=True):
        if isinstance(stage, int) and isinstance(extent, int) and extent != 2 ** (stage - 1):
            raise OpError(
                f"{_NAME}: {part}_coeff has extent {extent};"
                f" expected 2^(stage - 1) = {2 ** (stage - 1)}"
            )
    if isinstance(stage, int):
        return 2 ** (stage - 1)
    numbers = {extent for extent in extents if isinstance(extent, int)}
    if len(numbers) > 1:
        raise OpError(f"{_NAME}: imag_coeff has extent {extents[1]}; expected {extents[0]}")
    if numbers:
        return numbers.pop()
    named = [extent for extent in extents if extent != "?"]
    return named[0] if named else "coefficients"
