"""What JAX leaves to LAPACK: factors and triangular systems, as functions of the program."""

import importlib
from itertools import product

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends import import_lowered
from tvm_iree_ext.frontends.lapack.jax_lapack import without_lapack

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-iree-ext[jax]'")
jax_linear_algebra, jax_householder = (
    importlib.import_module(f"tvm_iree_ext.frontends.lapack.{name}")
    for name in ("jax_linear_algebra", "jax_householder")
)
linalg, triangular = jax.numpy.linalg, jax.lax.linalg.triangular_solve


@pytest.fixture(autouse=True)
def small_panels(monkeypatch):
    """Small matrices are of several panels then."""
    monkeypatch.setattr(jax_linear_algebra, "_PANEL", 4)
    monkeypatch.setattr(jax_householder, "_PANEL", 2)


def numbers(*shape, dtype="float32"):
    rng = np.random.default_rng(0)
    found = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        found = found + 1j * rng.standard_normal(shape)
    return found.astype(dtype)


def positive(size, *batch, dtype="float32"):
    half = numbers(*batch, size, size, dtype=dtype)
    return half @ half.swapaxes(-1, -2).conj() + np.eye(size, dtype=dtype)


def program_of(function, *arguments):
    with jax.enable_x64(any(one.dtype == "float64" for one in arguments)):
        return ext.from_jax(function, *arguments)


def near(came, want, dtype):
    """As near as sums of a hundred terms are, of a matrix that is well conditioned."""
    tolerance = 2e-4 if dtype in ("float32", "complex64") else 1e-11
    assert came.dtype == np.dtype(dtype)
    np.testing.assert_allclose(came, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "batch"), [("float32", (2, 3)), ("float64", ())], ids=str)
def test_factors_of_positive_matrices(batch, dtype):
    """Of one element, and of two panels."""
    matrices = [positive(size, *batch, dtype=dtype) for size in (1, 6)]
    found = program_of(lambda *several: [linalg.cholesky(one) for one in several], *matrices)
    for came, matrix in zip(found(*matrices), matrices, strict=True):
        near(came, np.linalg.cholesky(matrix), dtype)


def test_upper_factors_and_matrices_that_have_none():
    matrix = positive(5)
    program = program_of(lambda a: linalg.cholesky(a, upper=True), matrix)
    near(program(matrix), np.linalg.cholesky(matrix).T, "float32")
    for wrong in (-matrix, np.where(np.eye(5) > 0, np.nan, matrix)):
        wrong = wrong.astype("float32")
        np.testing.assert_array_equal(program(wrong), linalg.cholesky(wrong, upper=True))


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "batch"), [("float32", ()), ("float64", (3,))], ids=str)
def test_systems_are_solved(batch, dtype):
    """Rows are exchanged, since some of the first are 0."""
    matrix, right = numbers(*batch, 6, 6, dtype=dtype), numbers(*batch, 6, 2, dtype=dtype)
    matrix[..., 0, 0] = matrix[..., 2, 1:3] = 0
    program = program_of(linalg.solve, matrix, right)
    near(program(matrix, right), np.linalg.solve(matrix, right), dtype)


def test_a_right_side_inverses_and_determinants():
    matrix, right = numbers(4, 4) + 4 * np.eye(4, dtype="float32"), numbers(4)
    program = program_of(
        lambda a, b: (linalg.solve(a, b), linalg.inv(a), linalg.det(a)), matrix, right
    )
    wants = np.linalg.solve(matrix, right), np.linalg.inv(matrix), np.linalg.det(matrix)
    for came, want in zip(program(matrix, right), wants, strict=True):
        near(came, want, "float32")


@pytest.mark.costly
@pytest.mark.parametrize("shape", [(3, 5), (10, 6), (6, 10), (4, 4)], ids=str)
def test_rows_are_exchanged_as_lapack_exchanges_them(shape):
    matrix = numbers(*shape)
    if shape == (4, 4):
        matrix[:, 1] = 0  # singular
    for came, want in zip(
        program_of(jax.lax.linalg.lu, matrix)(matrix), jax.lax.linalg.lu(matrix), strict=True
    ):
        np.testing.assert_allclose(came, want, rtol=1e-3, atol=1e-4)


@pytest.mark.costly
@pytest.mark.parametrize("parity", [0, 1])
def test_triangles_of_all_kinds(parity):
    """The other triangle is not read: it holds no numbers.  Half of the kinds have all triples."""
    size = 5
    matrix = numbers(size, size) / size + 2 * np.eye(size, dtype="float32")
    left, right = numbers(2, size, 3), numbers(2, 3, size)
    lower, upper = (
        np.broadcast_to(np.where(part(np.ones((size, size))) > 0, matrix, np.nan), (2, size, size))
        for part in (np.tril, np.triu)
    )
    arguments = lower.astype("float32"), upper.astype("float32"), left, right
    kinds = ("left_side", "lower", "transpose_a", "unit_diagonal")
    ways = [
        dict(zip(kinds, way, strict=True))
        for way in product((True, False), repeat=4)
        if sum(way) % 2 == parity
    ]

    def solved(lower, upper, left, right):
        return [
            triangular(lower if way["lower"] else upper, left if way["left_side"] else right, **way)
            for way in ways
        ]

    for way, came in zip(ways, program_of(solved, *arguments)(*arguments), strict=True):
        part = np.tril(matrix) if way["lower"] else np.triu(matrix)
        if way["unit_diagonal"]:
            np.fill_diagonal(part, 1)
        part = part.T if way["transpose_a"] else part
        if way["left_side"]:
            want = np.linalg.solve(part, left)
        else:
            want = np.linalg.solve(part.T, right.swapaxes(1, 2)).swapaxes(1, 2)
        near(came, want, "float32")


@pytest.mark.long
def test_complex_matrices_are_factored():
    matrix, right = positive(6, dtype="complex64"), numbers(6, 2, dtype="complex64")

    def forms(a, b):
        turned = triangular(a, b, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
        return [linalg.cholesky(a, upper=True), linalg.solve(a, b), *jax.lax.linalg.lu(b), turned]

    program = program_of(forms, matrix, right)
    for came, want in zip(program(matrix, right), forms(matrix, right), strict=True):
        np.testing.assert_allclose(came, want, rtol=2e-3, atol=2e-4)


@pytest.mark.costly
@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_reflections_are_those_of_lapack(dtype):
    wide, square = numbers(3, 5, dtype=dtype), numbers(5, 5, dtype=dtype)

    def forms(wide, square):
        found, taus = jax.lax.linalg.qr(square, pivoting=True, full_matrices=False)[::2]
        hessenberg, own = jax.lax.linalg.hessenberg(square)
        return [
            *(*linalg.qr(wide), *linalg.qr(wide.T, mode="complete"), found, taus, hessenberg, own),
            jax.lax.linalg.ormqr(hessenberg, own, wide, left=False, transpose=True),
            *jax.lax.linalg.tridiagonal(square + square.conj().T, lower=True),
            jax.lax.linalg.tridiagonal_solve(square[0], square[1], square[2], square),
        ]

    program = program_of(forms, wide, square)
    for came, want in zip(program(wide, square), forms(wide, square), strict=True):
        np.testing.assert_allclose(came, want, rtol=2e-3, atol=2e-3)


def test_eigenvalues_of_hermitian_matrices():
    """Vectors are known but for a factor of magnitude 1; some values are equal."""
    several = np.stack([positive(3, dtype="complex64"), np.diag([2, -1, 2]), np.zeros((3, 3))])
    several = several.astype("complex64")
    values, vectors = program_of(linalg.eigh, several)(several)
    turned = vectors.conj().swapaxes(1, 2)
    near(values, np.linalg.eigvalsh(several), "float32")
    near(vectors * values[:, None] @ turned, several, "complex64")
    near(vectors @ turned, np.stack([np.eye(3)] * 3), "complex64")


@pytest.mark.long
def test_eigenvalues_of_symmetric_matrices():
    """Those of Hermitian ones, of real numbers and without vectors."""
    several = np.stack([np.diag(np.float32([2, -1, 2, 0])), numbers(4, 4), np.zeros((4, 4), "f4")])
    found = program_of(linalg.eigvalsh, several)(several)
    near(found, np.linalg.eigvalsh((several + several.swapaxes(1, 2)) / 2), "float32")


@pytest.mark.long
def test_singular_values():
    """Of a matrix with more columns, and of one whose columns are multiples of two."""
    wide, low = numbers(3, 5), numbers(5, 2) @ numbers(2, 4)
    program = program_of(lambda a, b: [*linalg.svd(a), *linalg.svd(b, False)], wide, low)
    found = program(wide, low)
    for matrix, (left, values, right) in ((wide, found[:3]), (low, found[3:])):
        near(values, np.linalg.svd(matrix, compute_uv=False), "float32")
        count = len(values)
        near(left[:, :count] * values @ right[:count], matrix, "float32")
        near(left.T @ left, np.eye(left.shape[1]), "float32")
        near(right @ right.T, np.eye(right.shape[0]), "float32")


@pytest.mark.long
def test_eigenvalues_of_any_matrix():
    """In no order; a pair of a real matrix is conjugated, and a triangle has its own."""
    real, triangle = numbers(4, 4), np.triu(numbers(3, 3, dtype="complex64"))

    def forms(real, triangle):
        return [*jax.lax.linalg.eig(real), *jax.lax.linalg.schur(triangle @ triangle)]

    values, left, right, form, unitary = program_of(forms, real, triangle)(real, triangle)
    near(real @ right, right * values, "complex64")
    near(left.conj().T @ real, values[:, None] * left.conj().T, "complex64")
    near(np.linalg.norm(right, axis=0), np.ones(4), "float32")
    assert np.allclose(np.poly(values), np.poly(np.linalg.eigvals(real)), atol=1e-4)
    near(unitary @ form @ unitary.conj().T, triangle @ triangle, "complex64")
    near(unitary @ unitary.conj().T, np.eye(3), "complex64")
    assert (np.tril(form, -1) == 0).all()


@pytest.mark.long
def test_schur_form_of_real_matrices():
    """Pairs of conjugated values are blocks with one number twice; others stand alone.

    Of any numbers, of small ones, of a permutation, whose values lie on a circle, of a symmetric
    matrix, and of one element.
    """
    any_of = numbers(6, 6)
    circle = np.roll(np.eye(6, dtype="float32"), 1, axis=0)
    matrices = np.stack([any_of, any_of * np.float32(1e-30), circle, any_of + any_of.T])
    single = numbers(1, 1)
    program = program_of(
        lambda *several: [part for one in several for part in jax.lax.linalg.schur(one)],
        matrices,
        single,
    )
    forms, turns, form, turn = program(matrices, single)
    assert form == single
    assert turn == 1
    for matrix, form, turn in zip(matrices, forms, turns, strict=True):
        near(turn @ form @ turn.T, matrix, "float32")
        near(turn @ turn.T, np.eye(6), "float32")
        assert (np.tril(form, -2) == 0).all()
        below, above, values = np.diag(form, -1), np.diag(form, 1), np.diag(form)
        is_pair = below != 0
        assert not (is_pair[1:] & is_pair[:-1]).any()
        assert (values[:-1] == values[1:])[is_pair].all()
        assert (np.sign(below) != np.sign(above))[is_pair].all()
    assert (np.diag(forms[3], -1) == 0).all()


def test_what_has_no_form_is_refused_by_name():
    with pytest.raises(MlirError, match=r"LAPACK's sytrd of an upper triangle.*no form"):
        ext.from_jax(lambda one: jax.lax.linalg.tridiagonal(one, lower=False), numbers(3, 3))


def test_gradients_of_a_likelihood():
    matrix, right = positive(5), numbers(5)

    def likelihood(a, b):
        factor = linalg.cholesky(a)
        half = jax.scipy.linalg.solve_triangular(factor, b, lower=True)
        return jax.numpy.log(jax.numpy.diagonal(factor)).sum() + (half**2).sum()

    gradient = jax.grad(likelihood, (0, 1))
    program = program_of(gradient, matrix, right)
    for came, want in zip(program(matrix, right), gradient(matrix, right), strict=True):
        np.testing.assert_allclose(came, want, rtol=1e-3, atol=1e-4)


def test_text_has_one_function_for_equal_calls():
    shape = jax.ShapeDtypeStruct((4, 4), "float32")
    lowered = jax.jit(lambda a, b: (linalg.cholesky(a), linalg.cholesky(b))).lower(shape, shape)
    text = without_lapack(lowered.as_text("stablehlo"))
    assert "custom_call" not in text
    assert text.count("func.func private @lapack_0_main") == 1
    assert "@lapack_1" not in text
    program = ext.build_program(import_lowered(lowered.as_text("stablehlo"), "stablehlo"))
    matrix = positive(4)
    for came in program(matrix, matrix):
        near(came, np.linalg.cholesky(matrix), "float32")
    assert without_lapack("module {\n}\n") == "module {\n}\n"
