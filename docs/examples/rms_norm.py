"""RMS norm as an op of one's own: built, checked against NumPy, timed, exported.

python rms_norm.py [FOLDER]        also write the kernel there
"""

import sys
import timeit

import numpy as np
from tvm import tirx

import tvm_iree_ext as ext
from tvm_iree_ext.ops import tiles

ROWS, COLUMNS = 256, 1024


def rms_norm(x, scale, out):
    """Each row over the root of its mean square, times a number for each column."""
    squares = tiles.reduce(x * x, 1, lambda a, b: a + b, 0.0)

    def element(i, j):
        return x[i, j] * tirx.rsqrt(squares[i] / COLUMNS + 1e-6) * scale[j]

    return tiles.compute(out.extents, element, "float32")


def main() -> None:
    op = ext.ops.custom_op(
        [(ROWS, COLUMNS), (COLUMNS,)],
        [(ROWS, COLUMNS)],
        indexing_maps=["(d0)[s0] -> (d0, s0)", "(d0)[s0] -> (s0)", "(d0)[s0] -> (d0, s0)"],
        iterator_types=["parallel"],
        region=rms_norm,
    )
    kernel = ext.build(op)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS), dtype="float32")
    scale = rng.standard_normal(COLUMNS, dtype="float32")
    out = np.zeros_like(x)

    def by_numpy():
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * scale

    np.testing.assert_allclose(kernel(x, scale, out), by_numpy(), rtol=1e-4, atol=1e-5)
    for name, call in [("kernel", lambda: kernel(x, scale, out)), ("NumPy", by_numpy)]:
        print(f"{name:6} {min(timeit.repeat(call, number=20, repeat=5)) / 20 * 1e6:6.0f} us")
    if len(sys.argv) > 1:
        print("written to", kernel.export(sys.argv[1]))


if __name__ == "__main__":
    main()
