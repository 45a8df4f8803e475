"""What programs mean, against scalar loops written down again."""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import AffineMap, VectorError
from tvm_iree_ext.vector.ir.combining_kinds import combine
from tvm_iree_ext.vector.ir.rounding import fused_multiply_add, narrowed

RNG = np.random.default_rng(0)


def result(build, **arrays):
    """The result of a program of vectors, or memory where a name begins with a capital."""
    with vector.program("one") as b:
        values = {}
        for name, array in arrays.items():
            kind = vector.tensor if name[0].isupper() else vector.vector
            type = kind(array.shape, str(array.dtype)) if array.ndim else str(array.dtype)
            values[name] = b.argument(name, type)
        b.returns(build(b, **values))
    b.program.verify()
    return b.program.evaluate(**arrays)["result"]


@pytest.mark.parametrize("seed", range(30))
def test_transfers_follow_the_formula(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = rng.integers(1, 6, rank)
    dims = [int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)]]
    read_dims = list(dims)
    if rng.random() < 0.4:
        read_dims.insert(int(rng.integers(len(dims) + 1)), None)
    indices = [int(rng.integers(shape[k] + (k in dims))) for k in range(rank)]
    memory = rng.standard_normal(shape).astype(np.float32)
    for is_write, using in ((False, read_dims), (True, dims)):
        map = AffineMap.of(rank, using)
        extents = [int(e) for e in rng.integers(1, 5, len(using))]
        mask_shape = [extents[using.index(d)] for d in range(rank) if d in using]
        mask = rng.random(mask_shape) < 0.7
        data = rng.standard_normal(extents).astype(np.float32)
        want = memory.copy() if is_write else np.full(extents, -1, np.float32)
        for v in itertools.product(*map_range(extents)):
            m = list(indices)
            for p, d in enumerate(using):
                if d is not None:
                    m[d] += v[p]
            inside = all(0 <= m[d] < shape[d] for d in dims)
            at = tuple(v[using.index(d)] for d in range(rank) if d in using)
            if inside and mask[at] and is_write:
                want[tuple(m)] = data[v]
            elif inside and mask[at]:
                want[v] = memory[tuple(m)]

        def build(b, V, M, mask, *, map=map, is_write=is_write, extents=extents):
            if is_write:
                return b.transfer_write(V[()], M, indices, permutation_map=map, mask=mask)
            return b.transfer_read(
                M, indices, extents, padding=-1.0, permutation_map=map, mask=mask
            )

        with vector.program("one") as b:
            values = [
                b.argument("V", vector.vector(extents)),
                b.argument("M", vector.tensor([int(e) for e in shape])),
                b.argument("mask", vector.vector(mask_shape, "i1")),
            ]
            b.returns(build(b, *values))
        got = b.program.evaluate(data, memory, mask)["result"]
        np.testing.assert_array_equal(got, want)


def map_range(extents):
    return [range(e) for e in extents]


def test_in_bounds_is_a_promise_that_the_meaning_checks():
    with vector.program("outside") as b:
        source = b.argument("source", vector.tensor(("n",)))
        b.returns(b.transfer_read(source, [2], (4,), in_bounds=[True]))
    assert b.program.evaluate(np.arange(6, dtype=np.float32))["result"].tolist() == [2, 3, 4, 5]
    with pytest.raises(VectorError, match="dim 0 is touched at 5, outside its extent 5"):
        b.program.evaluate(np.arange(5, dtype=np.float32))


@pytest.mark.parametrize("kind", ["add", "mul", "minnumf", "maximumf"])
def test_contract_folds_products(kind):
    lhs, rhs = RNG.integers(-3, 4, (2, 3, 4)), RNG.integers(-3, 4, (4, 5, 2))
    lhs, rhs = lhs.astype(np.float32), rhs.astype(np.float32)
    acc = RNG.integers(-3, 4, (5, 2, 3)).astype(np.float32)
    want = acc.copy()
    for i, j, k, n in np.ndindex(2, 3, 4, 5):
        want[n, i, j] = combine(kind, want[n, i, j], np.float32(lhs[i, j, k] * rhs[k, n, i]))
    maps = ["(i, j, k, n) -> (i, j, k)", "(i, j, k, n) -> (k, n, i)", "(i, j, k, n) -> (n, i, j)"]
    iterators = ["parallel", "parallel", "reduction", "parallel"]
    got = result(
        lambda b, **v: b.contract(
            *v.values(), indexing_maps=maps, iterator_types=iterators, kind=kind
        ),
        lhs=lhs,
        rhs=rhs,
        acc=acc,
    )
    np.testing.assert_array_equal(got, want)


def test_contract_extends_before_it_multiplies():
    lhs = np.array([100, -128], np.int8)
    got = result(
        lambda b, lhs, acc: b.contract(
            lhs,
            lhs,
            acc,
            indexing_maps=["(k) -> (k)", "(k) -> (k)", "(k) -> ()"],
            iterator_types=["reduction"],
        ),
        lhs=lhs,
        acc=np.array(1, np.int32),
    )
    assert (got.dtype, got) == (np.int32, 100 * 100 + 128 * 128 + 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_fma_rounds_once(dtype):
    """Against fractions: the result is the nearest number, ties to even."""
    a, b, c = RNG.standard_normal((3, 400)).astype(dtype)
    c[::3] = -(a.astype(np.float64) * b.astype(np.float64))[::3].astype(dtype)  # cancellation
    got = fused_multiply_add(a, b, c)
    assert got.dtype == dtype
    for x, y, z, one in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [np.nextafter(one, np.array(to, dtype)) for to in (-np.inf, np.inf)]
        error = abs(Fraction(float(one)) - exact)
        assert all(error <= abs(Fraction(float(other)) - exact) for other in near)


def test_narrowing_rounds_once():
    """NumPy rounds float64 to bf16 by way of float32."""
    a = np.array([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-50, 1 + 3 * 2.0**-8 - 2.0**-50, 1e300])
    want = [1.0, 1 + 2.0**-7, 1 + 2.0**-7, np.inf]
    assert narrowed(a, np.dtype(ml_dtypes.bfloat16)).astype(np.float64).tolist() == want
    assert narrowed(-a[:3], np.dtype(np.float32)).tolist() == (-a[:3]).astype(np.float32).tolist()


def test_fma_of_what_is_not_finite():
    a = np.array([np.inf, np.inf, np.nan, 0.0, 1e300], np.float64)
    b = np.array([0.0, 2.0, 1.0, -1.0, 1e300], np.float64)
    c = np.array([1.0, -np.inf, 1.0, 0.0, -np.inf], np.float64)
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            operands = [one.astype(dtype) for one in (a, b, c)]
        got = fused_multiply_add(*operands)[:4]
        np.testing.assert_array_equal(got, np.array([np.nan, np.nan, np.nan, 0.0]))


def test_min_and_max_treat_nan_as_their_kind_says():
    a, b = np.array([1.0, np.nan, np.nan], np.float32), np.array([np.nan, 2.0, np.nan], np.float32)
    np.testing.assert_array_equal(combine("maxnumf", a, b), [1.0, 2.0, np.nan])
    np.testing.assert_array_equal(combine("maximumf", a, b), [np.nan] * 3)


def test_one_bit_computes_as_one_bit():
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert combine("add", a, b).tolist() == [False, True, True, False]
    assert combine("mul", a, b).tolist() == [False, False, False, True]
    assert combine("minsi", a, b).tolist() == [False, True, True, True]  # true is -1
    assert combine("minui", a, b).tolist() == [False, False, False, True]


def test_structured_ops_mean_what_numpy_computes():
    a, c = RNG.integers(-4, 5, (2, 5, 4)), RNG.integers(-4, 5, (2, 4, 3))
    a, c = a.astype(np.float32), c.astype(np.float32)
    out = np.ones((2, 5, 3), np.float32)
    got = result(lambda b, A, C, Y: b.batch_matmul(A, C, Y), A=a, C=c, Y=out)
    np.testing.assert_array_equal(got, 1 + a @ c)
    got = result(lambda b, A, C, Y: b.matmul(A, C, b.fill(2.0, Y)), A=a[0], C=c[0], Y=out[0])
    np.testing.assert_array_equal(got, 2 + a[0] @ c[0])
    got = result(
        lambda b, A, C, Y: b.matmul_transpose_b(A, C, Y),
        A=a[0],
        C=np.ascontiguousarray(c[0].T),
        Y=out[0],
    )
    np.testing.assert_array_equal(got, 1 + a[0] @ c[0])


@pytest.mark.parametrize("layout", ["nhwc_hwcf", "nchw_fchw"])
def test_convolution(layout):
    image, filter = RNG.integers(-4, 5, (1, 7, 9, 2)), RNG.integers(-4, 5, (3, 2, 2, 3))
    image, filter = image.astype(np.float32), filter.astype(np.float32)
    want = np.zeros((1, 2, 3, 3), np.float32)
    for h, w, f, x, y, c in np.ndindex(2, 3, 3, 3, 2, 2):
        want[0, h, w, f] += image[0, 2 * h + 2 * x, 3 * w + y, c] * filter[x, y, c, f]
    if layout[0:4] == "nchw":
        image, filter = image.transpose(0, 3, 1, 2), filter.transpose(3, 2, 0, 1)
        want = want.transpose(0, 3, 1, 2)
    got = result(
        lambda b, X, F, Y: b.conv_2d(X, F, Y, strides=(2, 3), dilations=(2, 1), layout=layout),
        X=np.ascontiguousarray(image),
        F=np.ascontiguousarray(filter),
        Y=np.zeros(want.shape, np.float32),
    )
    np.testing.assert_array_equal(got, want)


def test_generic_takes_any_body_and_maps():
    x, bias = RNG.standard_normal((3, 4)).astype(np.float32), np.arange(4, dtype=np.float32)
    got = result(
        lambda b, X, B, Y: b.generic(
            [X, B],
            [Y],
            lambda one, other, _: b.elementwise("maximumf", one + other, b.constant(0.0, "f32")),
            indexing_maps=["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (j, i)"],
            iterator_types=["parallel", "parallel"],
        )[0],
        X=x,
        B=bias,
        Y=np.zeros((4, 3), np.float32),
    )
    np.testing.assert_array_equal(got, np.maximum(x + bias, 0).T)


def test_tiles_of_a_dynamic_tensor():
    """A loop over tiles of 4 rows; the last one has what is left."""
    with vector.program("double") as b:
        x = b.argument("x", vector.tensor(("rows", 3)))
        rows = b.dim(x, 0)
        count = b.elementwise("ceildivsi", rows, b.index(4))
        with b.forall(count, outs=[b.empty([rows, 3])], mapping="thread") as tile:
            start = tile.index * 4
            size = b.elementwise("minsi", b.index(4), rows - start)
            piece = b.extract_slice(x, [start, 0], [size, 3])
            (double,) = b.generic([piece], [b.empty([size, 3])], lambda one, _: one + one)
            tile.yield_(b.insert_slice(double, tile.carried[0], [start, 0]))
        b.returns(tile.result)
    b.program.verify()
    for rows in (1, 4, 7):
        data = RNG.standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(b.program.evaluate(data)["result"], data + data)


def test_padding_and_conditions():
    with vector.program("pad") as b:
        x = b.argument("x", vector.tensor((2, 3)))
        flag = b.argument("flag", "i1")
        padded = b.pad(x, [1, 0], [0, 2], 7.0)
        b.returns(*b.if_(flag, lambda: padded, lambda: b.fill(0.0, padded)))
    x = np.ones((2, 3), np.float32)
    want = np.pad(x, [(1, 0), (0, 2)], constant_values=7)
    np.testing.assert_array_equal(b.program.evaluate(x, True)["result"], want)
    np.testing.assert_array_equal(b.program.evaluate(x, False)["result"], want * 0)
