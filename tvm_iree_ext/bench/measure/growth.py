"""How the time of each op grows with its size, and the memory that a call takes.

Every op is timed at sizes that double.  The slope of log time over log size is its exponent: about
1 for an op that takes linear time, a little more for n log n, 2 for quadratic.  Sizes are such that
the smallest one is past what a call costs; where larger ones leave a cache, the slope is larger by
that step.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.bench.cases.custom_op import two_products
from tvm_iree_ext.bench.cases.exp_reduction import attention_case as attention_of_scores
from tvm_iree_ext.bench.cases.transfer import embedding_case
from tvm_iree_ext.bench.measure.footprint import extra_bytes
from tvm_iree_ext.bench.measure.turns import Contender, take_turns
from tvm_iree_ext.building import kernel_build
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.runtime import tvm_runtime

DOUBLINGS = 4


@dataclass(frozen=True)
class Subject:
    """An op whose size can be chosen.

    Attributes:
        make: the op for a size.
        smallest: the first size.
        size: what the size counts.
    """

    make: Callable[[int], Op]
    smallest: int
    size: str


def _image(n: int) -> tuple[int, int, int, int]:
    return (1, n, 56, 64)


def _lanes_hold(rows: int) -> NestedLayout:
    """A layout of ``rows`` x 1024 over 4 subgroups of 64 lanes."""
    return NestedLayout((4, 1), (rows // 64, 64), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))


SUBJECTS: dict[str, Subject] = {
    "iree_linalg_ext.attention": Subject(
        lambda n: ops.attention((1, 4, 64, 64), (1, 4, n, 64), (1, 4, n, 64)), 512, "keys"
    ),
    "iree_linalg_ext.online_attention": Subject(
        lambda n: ops.online_attention((1, 4, 64, 64), (1, 4, n, 64), (1, 4, n, 64)), 512, "keys"
    ),
    "iree_linalg_ext.exp_reduction": Subject(
        lambda n: attention_of_scores(4, 64, n, 64).op, 2048, "keys"
    ),
    "iree_linalg_ext.custom_op": Subject(
        lambda n: two_products(n, 64, 256), 256, "rows of two products"
    ),
    "iree_linalg_ext.fft": Subject(
        lambda n: ops.fft((16, n), (16, n), (32,), (32,), stage=6), 2**13, "points of a row"
    ),
    "tvm_iree_ext.fft_transform": Subject(
        lambda n: ops.fft_transform((16, n)), 2**10, "points of a row"
    ),
    "iree_linalg_ext.pack": Subject(
        lambda n: ops.pack((n, 1024), inner_dims_pos=[0, 1], inner_tiles=[8, 32]), 256, "rows"
    ),
    "iree_linalg_ext.unpack": Subject(
        lambda n: ops.unpack(
            (n // 8, 32, 8, 32), (n, 1024), inner_dims_pos=[0, 1], inner_tiles=[8, 32]
        ),
        256,
        "rows",
    ),
    "iree_linalg_ext.scatter": Subject(
        lambda n: ops.scatter((n, 64), (n, 1), (4096, 64), region="add", unique_indices=False),
        8192,
        "updates",
    ),
    "iree_linalg_ext.gather": Subject(lambda n: ops.gather((4096, 64), (n, 1)), 8192, "slices"),
    "iree_linalg_ext.scan": Subject(lambda n: ops.scan((n,), dimension=0), 2**17, "elements"),
    "iree_linalg_ext.map_load": Subject(
        lambda n: ops.map_load((1024, n), (n, 1024), "arg1, arg0, 0.0"), 256, "rows"
    ),
    "iree_linalg_ext.map_store": Subject(
        lambda n: ops.map_store((n, 1024), (1024, n), "arg1, arg0, True"), 256, "rows"
    ),
    "iree_linalg_ext.sort": Subject(lambda n: ops.sort((n,), dimension=0), 2**16, "keys"),
    "iree_linalg_ext.topk": Subject(
        lambda n: ops.topk((16, n), (16, 8), dimension=1), 2**14, "candidates of a row"
    ),
    "iree_linalg_ext.topk_v2": Subject(
        lambda n: ops.topk_v2((16, n), (16, 8), dimension=1), 2**14, "candidates of a row"
    ),
    "iree_linalg_ext.im2col": Subject(
        lambda n: ops.im2col(
            (1, n, 58, 64),
            kernel_size=(3, 3),
            batch_pos=(0,),
            m_pos=(1, 2),
            k_pos=(3,),
            strides=(1, 1),
            dilations=(1, 1),
        ),
        18,
        "rows of the image",
    ),
    "iree_linalg_ext.arg_compare": Subject(
        lambda n: ops.arg_compare((n, 1024), dimension=1), 256, "lines"
    ),
    "iree_vector_ext.arg_compare": Subject(
        lambda n: ops.vector_ext.arg_compare((n, 1024), dimension=1), 256, "lines"
    ),
    "iree_vector_ext.transfer_gather": Subject(
        lambda n: embedding_case(n, 4096, 256).op, 2048, "rows"
    ),
    "iree_vector_ext.transfer_scatter": Subject(
        lambda n: ops.vector_ext.transfer_scatter(
            (n, 1024), (1024, n), indexing_maps=("(d0, d1)[] -> (d1, d0)",)
        ),
        256,
        "rows",
    ),
    "iree_vector_ext.to_layout": Subject(
        lambda n: ops.vector_ext.to_layout((n, 1024), _lanes_hold(n)), 256, "rows"
    ),
    "iree_vector_ext.to_simt": Subject(
        lambda n: ops.vector_ext.to_simt(
            (n, 1024), _lanes_hold(n), num_subgroups=4, subgroup_size=64
        ),
        256,
        "rows",
    ),
    "iree_vector_ext.to_simd": Subject(
        lambda n: ops.vector_ext.to_simd(
            (4, 64, n // 64, 256), _lanes_hold(n), num_subgroups=4, subgroup_size=64
        ),
        256,
        "rows",
    ),
    "iree_linalg_ext.winograd.input_transform": Subject(
        lambda n: ops.winograd_input_transform(_image(n)), 28, "rows of the image"
    ),
    "iree_linalg_ext.winograd.filter_transform": Subject(
        lambda n: ops.winograd_filter_transform((3, 3, n, 64)), 64, "channels"
    ),
    "iree_linalg_ext.winograd.output_transform": Subject(
        lambda n: ops.winograd_output_transform((8, 8, 1, n, 10, 64)), 5, "rows of tiles"
    ),
    "tvm_iree_ext.conv_2d": Subject(
        lambda n: ops.conv_2d(_image(n), (3, 3, 64, 64), padding=1), 28, "rows of the image"
    ),
    "tvm_iree_ext.contraction": Subject(
        lambda n: ops.matmul((n, 512), (512, 512), [(512,)], epilogue="arg0 + arg1"), 128, "rows"
    ),
    "tvm_iree_ext.grouped_matmul": Subject(
        lambda n: ops.grouped_matmul((n, 256), (8, 256, 256), (8,)), 256, "rows"
    ),
}
"""Every op of the registry."""


@dataclass(frozen=True)
class Growth:
    """What was measured of one op.

    Attributes:
        seconds: the median at each size.
        exponent: the slope of log time over log size.
        operand_bytes, extra_bytes: at the largest size; extra is what a first call adds to the
            peak of a process that holds operands and results.
    """

    op: str
    threads: int
    size: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    exponent: float
    operand_bytes: int
    extra_bytes: int


def measure_growth(
    name: str, *, threads: int = 1, doublings: int | None = None, seconds: float = 0.5
) -> Growth:
    """Time an op of the registry at its sizes, all of them in turns.

    Args:
        doublings: of the smallest size; by default :data:`DOUBLINGS`.
        seconds: for all sizes together.
    """
    subject = SUBJECTS[name]
    sizes = tuple(subject.smallest * 2**i for i in range((doublings or DOUBLINGS) + 1))
    kernels = [kernel_build.build(subject.make(n)) for n in sizes]
    contenders = {
        str(n): Contender(_call(kernel), lambda: tvm_runtime.threads(threads))
        for n, kernel in zip(sizes, kernels, strict=True)
    }
    found = take_turns(contenders, seconds=seconds, min_rounds=3)
    times = [statistics.median(t for turn in found[str(n)] for t in turn) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    return Growth(
        op=name,
        threads=threads,
        size=subject.size,
        sizes=sizes,
        seconds=tuple(times),
        exponent=float(slope),
        operand_bytes=subject.make(sizes[-1]).bytes(),
        extra_bytes=extra_bytes(kernels[-1].folder, threads),
    )


def _call(kernel: Any) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    signature = kernel.signature
    operands = [_operand(rng, operand) for operand in signature.arguments]
    results = tuple(
        np.empty([int(e) for e in one.shape], dtypes.numpy_dtype(one.dtype))
        for one in signature.results
    )
    out = results if len(results) > 1 else results[0]
    return lambda: kernel(*operands, out=out)


def _operand(rng: np.random.Generator, operand: Operand) -> Any:
    """Normal numbers; integers are indices, which fit all subjects below 4096."""
    shape = [int(extent) for extent in operand.shape]
    if operand.dtype in dtypes.FLOATS:
        return rng.standard_normal(shape, np.float32).astype(dtypes.numpy_dtype(operand.dtype))
    return rng.integers(0, 4096, shape).astype(dtypes.numpy_dtype(operand.dtype))


GROWTH_HEADER = ("op", "threads", "size", "sizes", "ms", "exponent", "operands MiB", "extra MiB")


def growth_row(growth: Growth) -> tuple[str, ...]:
    """The cells of a table's row, under :data:`GROWTH_HEADER`."""
    mib = 1 << 20
    return (
        growth.op,
        str(growth.threads),
        growth.size,
        f"{growth.sizes[0]} ... {growth.sizes[-1]}",
        " ".join(_short(1e3 * t) for t in growth.seconds),
        f"{growth.exponent:.2f}",
        _short(growth.operand_bytes / mib),
        _short(growth.extra_bytes / mib),
    )


def _short(value: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(digits, 3)}f}"


def growth_markdown(found: Sequence[Growth]) -> str:
    """The table."""
    lines = [GROWTH_HEADER, ("---",) * len(GROWTH_HEADER), *map(growth_row, found)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
