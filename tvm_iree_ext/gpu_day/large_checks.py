"""Checks of sizes at which warpgroups, parts and pipelines come in; random cases are smaller."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.catalog.base.entry import Run
from tvm_iree_ext.on_gpu.filled_arrays import filled
from tvm_iree_ext.ops.base.op import Op

_FILLS = {
    "accumulator_init": "zeros",
    "output_values_init": "lowest",
    "output_indices_init": "zeros",
    "init_value": "lowest",
    "init_index": "zeros",
}
# Warpgroups of an H100 add products of 8-bit floats with 14 bits: of sums of 128 that are up to
# 128 * 8 * 8 in size here; what was measured is 0.03.
_HOPPERS_F8 = 128 * 8 * 8 * 2.0**-14
_BIAS_SILU_RESIDUAL = "(arg0 + arg1) * sigmoid(arg0 + arg1) + arg2"
_BIAS_RELU = "max(arg0 + arg1, 0)"


@dataclass(frozen=True)
class LargeCheck:
    """An op with operands of normal numbers, or integers from -8 to 7, which are made there.

    Attributes:
        id: its name in reports.
        make: the op.
        extents: those that are known at call time.
        absolute: what results may be off, where that is not the op's tolerance.
    """

    id: str
    make: Callable[[], Op]
    extents: Mapping[str, int] = field(default_factory=dict)
    absolute: float | None = None

    @property
    def op(self) -> str:
        """The name of the op."""
        return self.make().name

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to other processes by its name."""
        return _named, (self.id,)

    def filled(self, operand: Operand) -> dict[str, Any]:
        """How an operand is filled, as :func:`~tvm_iree_ext.on_gpu.filled_arrays.filled` has it."""
        shape = [self.extents.get(str(extent), extent) for extent in operand.shape]
        fill = _FILLS.get(operand.name, "small")
        return {"name": operand.name, "shape": shape, "dtype": operand.dtype, "fill": fill}

    def check(self, run: Run) -> str:
        """Run it; what is right is the reference's."""
        op = self.make()
        operands = {
            one.name: filled(self.filled(one), _as_numbers).view(numpy_dtype(one.dtype))
            for one in op.signature.arguments
        }
        run(op, operands)
        return ""


def _named(name: str) -> LargeCheck:
    return next(one for one in large_checks() if one.id == name)


def _as_numbers(words: np.ndarray, dtype: str) -> np.ndarray:
    return words.view(numpy_dtype(dtype)).astype(np.float64)


def _matmul(m: Any, n: int, k: int, dtype: str = "float16", **given: Any) -> Callable[[], Op]:
    return lambda: ops.matmul((m, k), (n, k), dtype=dtype, transpose_rhs=True, **given)


def _attention(
    heads: int, rows: Any, keys: Any, width: int, dtype: str = "float16", *,
    batch: Any = 1, key_heads: int = 0, **given: Any,
) -> Callable[[], Op]:  # fmt: skip
    groups = key_heads or heads
    shapes = ((heads, rows), (groups, keys), (groups, keys))
    return lambda: ops.attention(
        *((batch, *one, width) for one in shapes), dtype=dtype, layout="bhsd", **given
    )


def _bias_and_residual(m: Any, n: int) -> list[Any]:
    return [ops.TensorType((n,), "float16"), ops.TensorType((m, n), "float16")]


def _conv(image: tuple[Any, ...], filters: tuple[int, ...], **given: Any) -> Callable[[], Op]:
    return lambda: ops.conv_2d(image, filters, dtype="float16", **given)


def large_checks() -> Iterator[LargeCheck]:
    """All of them."""
    silu = {"epilogue": _BIAS_SILU_RESIDUAL}
    for m, n, k in ((1100, 1000, 264), (1024, 1152, 512)):
        operands = _bias_and_residual(m, n)
        yield LargeCheck(
            f"matmul f16 {m}x{n}x{k}, silu", _matmul(m, n, k, operands=operands, **silu)
        )
    yield LargeCheck(
        "matmul f16 of open rows, silu",
        _matmul("m", 1000, 264, operands=_bias_and_residual("m", 1000), **silu), {"m": 1111},
    )  # fmt: skip
    for dtype in (
        "float16",
        "bfloat16",
        "int8",
        "float8_e4m3fn",
        "float8_e5m2",
        "float32",
        "float64",
    ):
        absolute = _HOPPERS_F8 if dtype.startswith("float8") else None
        # Tiles in turns; rows that are padded, of 4 bytes among them, and turned; and parts of K.
        name = f"matmul {dtype} 4100x2104x208"
        yield LargeCheck(name, _matmul(4100, 2104, 208, dtype), absolute=absolute)
        for m, n, k in ((1040, 1040, 400), (1030, 1037, 1029), (1026, 1030, 1034), (90, 200, 8192)):
            name = f"matmul {dtype} {m}x{n}x{k}"
            yield LargeCheck(name, _matmul(m, n, k, dtype), absolute=absolute)
            yield LargeCheck(
                f"{name}, KxN",
                functools.partial(ops.matmul, (m, k), (k, n), dtype=dtype),
                absolute=absolute,
            )
    yield LargeCheck(
        "matmul f16 of open odd rows, silu",
        _matmul("m", 1001, 1029, operands=_bias_and_residual("m", 1001), **silu), {"m": 1111},
    )  # fmt: skip
    yield LargeCheck(
        "matmul i8 scaled to f16",
        lambda: ops.matmul(
            (1024, 512), (512, 1024),
            [ops.TensorType((1024, 1), "float32"), ops.TensorType((1024,), "float32")],
            dtype="int8", epilogue="arg0 * arg1 * arg2", result_dtype="float16",
        ),
    )  # fmt: skip
    yield LargeCheck(
        "matmul f16 in 5 groups", lambda: ops.matmul((5, 520, 136), (5, 136, 520), dtype="float16")
    )
    yield LargeCheck(
        "matmul f16 in 5 groups of odd rows",
        lambda: ops.matmul((5, 521, 537), (5, 537, 523), dtype="float16"),
    )
    yield LargeCheck(
        "matmul f16 in 3 groups and parts",
        lambda: ops.matmul((3, 30, 4104), (3, 4104, 264), dtype="float16", epilogue="arg0 * 0.5"),
    )
    yield LargeCheck("matmul f16 16x2048x1024", _matmul(16, 2048, 1024))
    yield LargeCheck("matmul f16 64x64x16384", _matmul(64, 64, 16384))
    yield LargeCheck("matmul f16 1001x999x1003", _matmul(1001, 999, 1003))
    relu = {"epilogue": _BIAS_RELU, "operands": [ops.TensorType((96,), "float16")]}
    yield LargeCheck("conv 3x3", _conv((16, 28, 28, 64), (3, 3, 64, 96), padding=1, **relu))
    yield LargeCheck(
        "conv 3x3, boxes in turns", _conv((24, 56, 56, 16), (3, 3, 16, 96), padding=1, **relu)
    )
    yield LargeCheck(
        "conv 3x3 of open images", _conv(("n", 28, 28, 64), (3, 3, 64, 96), padding=1, **relu),
        {"n": 15},
    )  # fmt: skip
    yield LargeCheck("conv 1x1", _conv((16, 28, 28, 72), (1, 1, 72, 96), **relu))
    yield LargeCheck("conv 5x3, spread", _conv((9, 31, 29, 64), (5, 3, 64, 96), dilations=(2, 1)))
    yield LargeCheck("conv 3x3 by 2", _conv((16, 28, 28, 64), (3, 3, 64, 96), strides=2, **relu))
    yield LargeCheck("conv 3x3 NCHW", _conv((8, 64, 28, 28), (96, 64, 3, 3), layout="NCHW"))
    for width in (64, 80, 128, 256):
        yield LargeCheck(f"attention f16 d{width}", _attention(8, 600, 520, width, batch=3))
        yield LargeCheck(
            f"attention f16 d{width} causal", _attention(8, 515, 515, width, causal=True)
        )
    yield LargeCheck("attention bf16 d128", _attention(8, 600, 520, 128, "bfloat16", batch=4))
    yield LargeCheck("attention f32 d64", _attention(8, 300, 520, 64, "float32"))
    yield LargeCheck(
        "attention f16 of open lengths, 8 heads on 2, causal",
        _attention(8, "rows", "keys", 128, batch="b", key_heads=2, causal="lower_right"),
        {"rows": 333, "keys": 401, "b": 2},
    )
    yield LargeCheck(
        "attention f16, a window",
        _attention(8, 600, 600, 128, batch=4, causal=True, window=(127, None)),
    )
    yield LargeCheck(
        "attention f16, a mask",
        _attention(8, 512, 520, 64, mask=ops.TensorType((8, 512, 520), "bool")),
    )
    yield LargeCheck(
        "attention f16, soft cap",
        _attention(8, 512, 520, 128, batch=4, region="30 * tanh(arg0 / 30)"),
    )
    yield LargeCheck("decode f16, 32 heads on 8", _attention(32, 1, 1500, 128, key_heads=8))
    yield LargeCheck(
        "decode f16 of open keys", _attention(32, 1, "keys", 128, key_heads=8), {"keys": 1777}
    )
    yield LargeCheck("scan of a line", lambda: ops.scan((600_000,), "add", dimension=0))
    yield LargeCheck("exclusive scan of columns", lambda: ops.scan(
        (3000, 130), "add", dimension=0, inclusive=False
    ))  # fmt: skip
    yield LargeCheck(
        "scan of an open line", lambda: ops.scan(("n",), "add", dimension=0), {"n": 400_001}
    )
    yield from _waiting()
    yield LargeCheck("argmax of a line", lambda: ops.arg_compare((700_000,), ">", dimension=0))
    yield LargeCheck("sort of a line", lambda: ops.sort((300_000,), dimension=0))
    yield LargeCheck("sort of i32 lines", lambda: ops.sort((7, 40_000), dimension=1, dtype="int32"))
    yield LargeCheck("topk of lines", lambda: ops.topk((5, 90_000), dimension=1, k=50))
    for length in (4096, 8192, 12_000, 65_536):
        yield LargeCheck(f"fft of {length}", functools.partial(ops.fft_transform, (3, length)))


def _waiting() -> Iterator[LargeCheck]:
    """Scans whose workgroups wait for one another: several groups of parts."""
    for dtype in ("float32", "float64", "bfloat16"):
        yield LargeCheck(
            f"scan of a line of {dtype} in any brackets",
            functools.partial(
                ops.scan, (1_200_001,), "add", dimension=0, dtype=dtype, reassociate=True
            ),
        )
    yield LargeCheck("exclusive scan of i64 lines", lambda: ops.scan(
        (3, "n"), "add", dimension=1, dtype="int64", inclusive=False
    ), {"n": 400_003})  # fmt: skip
