"""Products among a Relax module's functions: found, and taken for the registry's contraction."""

import numpy as np
import pytest
from relax_modules import module_of
from relax_programs import normal
from tvm import relax, te, tirx, topi

from tvm_iree_ext import ops
from tvm_iree_ext.ops.base.op import op_of
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.programs.relax_import.recognised_products import NoProduct, product_of

ROWS = tirx.Var("rows", "int64")
SHAPES = [
    ((7, 12), (12, 9)),
    ((3, 7, 12), (12, 9)),
    ((3, 1, 7, 12), (5, 12, 9)),
    ((12,), (12, 9)),
    ((1, 12), (12, 9)),
    ((2, 7, 12), (2, 12, 1)),
    ((ROWS, 12), (12, 9)),
]


def numbers(shape):
    return normal(*(6 if one is ROWS else one for one in shape))


@pytest.mark.costly
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_a_matmul_is_a_contraction(a, b, tmp_path):
    imported = from_relax(module_of({"a": a, "b": b}, relax.op.matmul))
    assert [op.name for op in imported.ops.values()] == ["tvm_iree_ext.contraction"]
    x, y = numbers(a), numbers(b)
    got = build_program(imported, folder=tmp_path / "p")(x, y)
    np.testing.assert_allclose(got, x @ y, 1e-4, 1e-5)


def test_an_einsum_is_a_contraction(tmp_path):
    mod = module_of(
        {"a": (3, 7, 5), "b": (5, 7, 4)},
        lambda a, b: relax.op.einsum(relax.Tuple([a, b]), "ijk,kjl->il"),
    )
    imported = from_relax(mod)
    assert [op.name for op in imported.ops.values()] == ["tvm_iree_ext.contraction"]
    a, b = normal(3, 7, 5), normal(5, 7, 4)
    got = build_program(imported, folder=tmp_path / "p")(a, b)
    np.testing.assert_allclose(got, np.einsum("ijk,kjl->il", a, b), 1e-4, 1e-5)


def called(compute, *shapes, dtype="float32"):
    """A module that calls a function of TE."""
    builder = relax.BlockBuilder()
    given = [relax.Var(f"x{n}", relax.TensorType(s, dtype)) for n, s in enumerate(shapes)]
    with builder.function("main", given, attrs={"global_symbol": "main"}):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(compute, *given))
        builder.emit_func_output(result)
    return builder.get()


def product(a, b):
    """Rows of ``a`` by rows of ``b``, with what a user puts around it in one function."""
    k = te.reduce_axis((0, a.shape[1]), name="k")
    shape = (a.shape[0], b.shape[0])
    scaled = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="scaled")
    sums = te.compute(shape, lambda i, j: te.sum(scaled[i, k] * b[j, k], axis=k), name="sums")
    return topi.nn.relu(te.compute(shape, lambda i, j: sums[i, j] + 1.0, name="added"))


@pytest.mark.parametrize("rows", [33, ROWS])
def test_a_product_among_other_nests_is_separated(rows, tmp_path):
    imported = from_relax(called(product, (rows, 20), (48, 20)))
    assert [op.name for op in imported.ops.values()] == ["tvm_iree_ext.contraction"]
    a, b = numbers((rows, 20)), normal(48, 20)
    built = build_program(imported, folder=tmp_path / "p")
    np.testing.assert_allclose(built(a, b), np.maximum(2 * a @ b.T + 1, 0), 1e-4, 1e-4)
    kernels = [kernel.computes for kernel in built.manifest.kernels]
    assert kernels == ["plain loops", "tvm_iree_ext.contraction"]  # what follows is its epilogue


def summed(element):
    """A function of TE that sums over the last axis of its first operand."""

    def compute(a, b):
        k = te.reduce_axis((0, 8), name="k")
        return te.compute((6, 5), lambda i, j: te.sum(element(a, b, i, j, k), axis=k), name="sums")

    return te.create_prim_func([a := te.placeholder((6, 8), name="a"),
                                b := te.placeholder((8, 5), name="b"), compute(a, b)])  # fmt: skip


@pytest.mark.parametrize(
    ("element", "why"),
    [
        (lambda a, b, i, j, k: a[i, k] + b[k, j], "other than products"),
        (lambda a, b, i, j, k: a[i, k] * (b[k, j] + 1.0), "no element of an operand"),
        (lambda a, b, i, j, k: a[i, k] * b[(k + 1) % 8, j], "goes along b by"),
        (lambda a, b, i, j, k: a[i, k] * b[k, 0], "goes along b by"),
        (lambda a, b, i, j, k: a[i, j] * b[k, j], "goes along a by"),
    ],
)
def test_what_is_no_product_stays_loops(element, why):
    with pytest.raises(NoProduct, match=why):
        product_of(summed(element))


@pytest.mark.parametrize("wide", [False, True])
def test_products_of_bytes_wrap_where_they_did(wide, tmp_path):
    """A product of bytes that wraps before it is added is no element of a contraction."""

    def compute(a, b):
        k = te.reduce_axis((0, 8), name="k")

        def element(i, j):
            one = a[i, k] * b[k, j]
            return te.sum(one.astype("int32") if wide else one, axis=k)

        return te.compute((6, 5), element, name="sums")

    imported = from_relax(called(compute, (6, 8), (8, 5), dtype="int8"))
    assert bool(imported.ops) != wide
    assert [one.why for one in imported.fallbacks] == [
        "its products wrap before they are added"
    ] * wide
    a, b = (np.random.default_rng(0).integers(-99, 99, s).astype("int8") for s in ((6, 8), (8, 5)))
    got = build_program(imported, folder=tmp_path / "p")(a, b)
    products = a[:, :, None] * b[None]
    np.testing.assert_array_equal(got, products.sum(1, dtype="int32" if wide else "int8"))


def test_a_canonical_function_is_scheduled_as_its_op(tmp_path):
    op = ops.sort((6, 40), dimension=1, region="<")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6, 40), "float32"))
    function = builder.add_func(op.prim_func(), "sorted")
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            found = builder.emit(relax.call_tir(function, [x], x.ty))
            found = builder.emit_output(relax.op.nn.relu(found))
        builder.emit_func_output(found)
    imported = from_relax(builder.get())
    assert list(imported.ops.values()) == [op]
    x = normal(6, 40)
    got = build_program(imported, folder=tmp_path / "p")(x)
    np.testing.assert_array_equal(got, np.maximum(np.sort(x, 1), 0))


def test_a_canonical_function_that_was_changed_is_no_ops():
    op = ops.matmul((6, 8), (8, 5))
    first = op.prim_func()
    other = ops.matmul((6, 8), (8, 5), epilogue="arg0 * 2").prim_func()
    changed = first.with_body(other.body)
    assert op_of(first) is not None
    assert op_of(changed) is None
