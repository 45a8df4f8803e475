"""Chains of stages become whole transforms, and only those that are transforms."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from tvm_iree_ext.frontends.jax.jax_functions import import_jax  # noqa: E402
from tvm_iree_ext.frontends.stablehlo import stablehlo_text  # noqa: E402
from tvm_iree_ext.ops.families.fft.fft import Fft  # noqa: E402
from tvm_iree_ext.programs import program_lowering  # noqa: E402
from tvm_iree_ext.programs.program_build import build_program  # noqa: E402
from tvm_iree_ext.targets.names import make_target  # noqa: E402


@pytest.fixture(autouse=True)
def by_stages(monkeypatch):
    """Transforms as IREE's front end writes them, and not as our op from the first."""
    monkeypatch.setattr(stablehlo_text, "declared_transforms", lambda text: text)


def lines(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def parts(function):
    """A function of complex numbers, as one of their parts."""

    def of_parts(real, imag):
        result = function(real + 1j * imag)
        return result.real, result.imag

    return of_parts


def kinds(imported):
    """The kinds and norms of the transforms in a program, and how many stages are left."""
    ops = [op for op, _ in program_lowering.program_ops(imported, make_target("llvm")).values()]
    whole = [(op.kind, op.norm) for op in ops if hasattr(op, "norm")]
    return whole, sum(isinstance(op, Fft) for op in ops)


def check(function, arguments, expected, monkeypatch, folder):
    """A program has these transforms, and computes the same with them and without."""
    imported = import_jax(function, *arguments)
    assert kinds(imported) == (expected, 0)
    want = [np.asarray(one) for one in jax.tree_util.tree_leaves(function(*arguments))]
    for way in ("with", "without"):
        got = build_program(imported, folder=folder / way)(*arguments)
        for one, other in zip(got if isinstance(got, tuple) else [got], want, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * np.max(np.abs(other)))
        monkeypatch.setattr(program_lowering, "WholeTransforms", _Nothing)
        imported = import_jax(function, *arguments)


class _Nothing:
    """A rewrite that changes nothing."""

    def __init__(self, mod, *_):
        self.mod = mod

    def run(self):
        return self.mod


@pytest.mark.costly
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (jnp.fft.fft, ("forward", "backward")),
        (jnp.fft.ifft, ("inverse", "backward")),
        (lambda z: jnp.fft.ifft(jnp.fft.fft(z)[..., ::2]), None),
    ],
    ids=["forward", "inverse", "two"],
)
def test_complex_transforms(function, expected, monkeypatch, tmp_path):
    found = [expected] if expected else [("forward", "backward"), ("inverse", "backward")]
    check(parts(function), (lines(3, 64), lines(3, 64, seed=1)), found, monkeypatch, tmp_path)


def test_real_lines_take_half_the_work(monkeypatch, tmp_path):
    def convolved(x, y):
        return jnp.fft.irfft(jnp.fft.rfft(x, 32) * jnp.fft.rfft(y, 32), 32)[..., :16]

    found = [("real_to_complex", "backward"), ("complex_to_real", "backward")]
    check(convolved, (lines(5, 16), lines(5, 16, seed=1)), found, monkeypatch, tmp_path)


def test_other_factors_are_no_transform():
    """Stages whose twiddle factors are of another angle stay stages."""
    imported = import_jax(parts(jnp.fft.fft), lines(2, 16), lines(2, 16))
    name = max(
        (n for n, a in imported.parameters.items() if a.dtype == np.float32),
        key=lambda n: imported.parameters[n].size,
    )
    imported.parameters[name] = imported.parameters[name] * np.float32(0.5)
    whole, stages = kinds(imported)
    assert (whole, stages) == ([], 4)


def test_lines_in_another_order_are_no_transform():
    imported = import_jax(parts(jnp.fft.fft), lines(2, 16), lines(2, 16))
    name = next(n for n, a in imported.parameters.items() if a.dtype == np.int64)
    imported.parameters[name] = imported.parameters[name][::-1].copy()
    whole, stages = kinds(imported)
    assert (whole, stages) == ([], 4)
