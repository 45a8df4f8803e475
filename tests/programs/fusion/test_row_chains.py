"""Reductions over the same rows, and what is elementwise between, are one kernel."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import tirx

from tvm_iree_ext.programs import program_lowering
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.fusion import row_chains
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.schedules.shared.loops.loops_rows import ROWS
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program
from tvm_iree_ext.targets.names import make_target

F32 = "float32"
GPUS = ("cuda:sm_80", "rocm:gfx942")


class Rows:
    """Calls over ``x[shape]``, whose axes ``reduced`` are the elements of rows."""

    def __init__(self, shape, reduced, dtype=F32, **others):
        self.shape, self.reduced, self.dtype = tuple(shape), set(reduced), dtype
        self.kept = [place for place in range(len(shape)) if place not in self.reduced]
        self.maker = Maker(x=(shape, dtype), **others)
        self.emit = None

    def __getitem__(self, name):
        return self.maker[name]

    def of(self, at):
        """The place of a row in what it has one of."""
        return [at[place] for place in self.kept]

    def reduce(self, x, element=lambda v: v, combine=lambda a, b: a + b, init=0.0, dtype=None):
        shape = [self.shape[place] for place in self.kept]
        over = [self.shape[place] for place in sorted(self.reduced)]
        dtype = dtype or self.dtype

        def body(total, r, *axes):
            kept, inner = iter(axes[: len(shape)]), iter(axes[len(shape) :])
            at = [next(inner if p in self.reduced else kept) for p in range(len(self.shape))]
            return combine(total, element(r[0](*at).astype(dtype)))

        return self.emit(self.maker.nest([x], shape, dtype, body, reduced=over, init=init))

    def single(self, values, body):
        """One value for each row."""
        shape = [self.shape[place] for place in self.kept]
        load = lambda r, *at: body(*(one(*at) for one in r))  # noqa: E731
        return self.emit(self.maker.nest(values, shape, self.dtype, load))

    def map(self, full, single, body, others=()):
        """A value for each element; ``others`` are tensors with the axes that they have."""

        def load(r, *at):
            values = [one(*at) for one in r[: len(full)]]
            values += [one(*self.of(at)) for one in r[len(full) : len(full) + len(single)]]
            rest = zip(r[len(full) + len(single) :], others, strict=True)
            return body(*values, *(one(*(at[p] for p in axes)) for one, (_, axes) in rest))

        given = [*full, *single, *(tensor for tensor, _ in others)]
        return self.emit(self.maker.nest(given, self.shape, self.dtype, load))

    def normalised(self, x, scale=None, axes=(), count=None):
        """Layer norm, or its like."""
        n = count or float(np.prod([self.shape[p] for p in self.reduced]))
        number = tirx.const(n, self.dtype)
        total = self.reduce(x)
        centred = self.map([x], [total], lambda v, t: v - t / number)
        square = self.reduce(centred, lambda v: v * v)
        factor = self.single(
            [square], lambda v: tirx.rsqrt(v / number + tirx.const(1e-5, self.dtype))
        )
        others = [] if scale is None else [(scale, axes)]
        return self.map([centred], [factor], lambda *v: np.prod(v), others)

    def softmax(self, x):
        least = tirx.min_value(self.dtype)
        most = self.reduce(x, combine=tirx.max, init=least.value)
        powers = self.map([x], [most], lambda v, m: tirx.exp(v - m))
        total = self.reduce(powers)
        return self.map([powers], [total], lambda v, t: v / t)


def normalised(x, axes, scale=1.0):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5) * scale


def softmax(x, axes):
    powers = np.exp(x - x.max(axes, keepdims=True))
    return powers / powers.sum(axes, keepdims=True)


def making(rows, body):
    def make(emit):
        rows.emit = emit
        made = body(rows)
        return list(made) if isinstance(made, tuple) else [made]

    return make


def kernels(made, target="llvm"):
    """The kernels of a program, and how many of them go by rows."""
    rows, make, results = made
    imported = program(rows.maker, make, results)
    fused = program_lowering.fused_program(imported, make_target(target))
    functions = prim_functions(fused.module).values()
    return len(functions), sum(ROWS in (one.attrs or {}) for one in functions)


def layer_norm(shape=(6, 5, 96)):
    rows = Rows(shape, [len(shape) - 1], scale=(shape[-1:], F32))
    make = making(rows, lambda r: r.normalised(r["x"], r["scale"], [len(shape) - 1], 96.0))
    return rows, make, [(shape, F32)]


@pytest.mark.costly
@pytest.mark.parametrize("shape", [(6, 5, 96), ("n", 5, 96), ("n", "m", 96), (6, 5, "k")])
@pytest.mark.parametrize("is_fused", [True, False])
def test_a_layer_norm_is_one_kernel(shape, is_fused, tmp_path, monkeypatch):
    if not is_fused:
        monkeypatch.setattr(program_lowering, "fuse_row_chains", lambda mod, *_: mod)
    x, scale = normal(6, 5, 96), normal(96)
    rows, make, results = layer_norm(shape)
    check(rows.maker, make, results, [x, scale], [normalised(x, -1, scale)], tmp_path)
    count, by_rows = kernels(layer_norm(shape))
    assert (count, by_rows) == ((1, 1) if is_fused else (count, 0))
    assert count == 1 or not is_fused


@pytest.mark.costly
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(
    ("shape", "reduced"),
    [
        ((3, 96), [1]),
        ((5, 7), [1]),
        ((1, 130), [1]),
        ((2, 3, 4, 5), [2, 3]),  # images, by channels
        ((2, 6, 4, 4), [0, 2, 3]),  # batches of them
        ((2, 5000), [1]),  # more than a lane keeps
        ((40, 16), [1]),  # several rows by a subgroup
    ],
)
@pytest.mark.parametrize("kind", ["normalised", "softmax"])
def test_a_kernel_of_a_gpu_goes_by_rows(shape, reduced, kind, target):
    rows = Rows(shape, reduced)
    make = making(rows, lambda r: getattr(r, kind)(r["x"]))
    x = normal(*shape)
    done = simulate_program(program(rows.maker, make, [(shape, F32)]), target, [x]).check()
    assert len(done.simulations) == 1
    want = {"normalised": normalised, "softmax": softmax}[kind](x, tuple(reduced))
    np.testing.assert_allclose(done.results[0], want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("extents", [(3, 96), (70, 33), (1, 2000)])
def test_a_call_of_a_gpu_says_the_extents(extents, target):
    rows = Rows(("n", "k"), [1])
    make = making(rows, lambda r: r.softmax(r["x"]))
    x = normal(*extents)
    done = simulate_program(program(rows.maker, make, [(("n", "k"), F32)]), target, [x]).check()
    assert len(done.simulations) == 1
    np.testing.assert_allclose(done.results[0], softmax(x, 1), rtol=3e-5, atol=3e-6)


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(12))
def test_random_chains_give_the_same_apart(seed, tmp_path, monkeypatch):
    """On the CPU, and on the simulator."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    outer = rng.choice([1, 2, 3, 5, 8, 16], rank - 1).tolist()
    shape = (*outer, int(rng.choice([33, 40, 64, 100])))
    inner = rng.permutation(rank - 1)[: rng.integers(0, rank - 1)].tolist()
    reduced = sorted([rank - 1, *inner])
    dtype = str(rng.choice([F32, "float64", "float16"]))
    several, factor = bool(rng.integers(2)), float(rng.integers(1, 4))
    target = str(rng.choice(GPUS))

    def body(r):
        x = r.map([r["x"]], [], lambda v: v * tirx.const(factor, dtype)) if several else r["x"]
        total = r.reduce(x)
        most = r.reduce(x, combine=tirx.max, init=-100.0)
        y = r.map([x], [total, most], lambda v, t, m: tirx.tanh(v - m) + t)
        last = r.reduce(y, lambda v: v * v)
        z = r.map([y, x], [last], lambda a, b, t: a * b + t)
        return (z, x, most) if several else (z, total)

    def made():
        rows = Rows(shape, reduced, dtype)
        kept = tuple(shape[place] for place in rows.kept)
        results = [(shape, dtype), *([(shape, dtype)] if several else []), (kept, dtype)]
        return rows, making(rows, body), results

    x = (rng.integers(-4, 5, shape) / 8).astype(dtype)
    rows, make, results = made()
    tolerance = {"rtol": 3e-2, "atol": 0.3} if dtype == "float16" else {"atol": 1e-3, "rtol": 1e-4}
    done = simulate_program(program(rows.maker, make, results), target, [x]).check()
    with monkeypatch.context() as patch:
        patch.setattr(program_lowering, "fuse_row_chains", lambda mod, *_: mod)
        rows, make, results = made()
        apart = build_program(program(rows.maker, make, results), folder=tmp_path / "apart")(x)
    apart = apart if isinstance(apart, tuple) else (apart,)
    rows, make, results = made()
    check(rows.maker, make, results, [x], apart, tmp_path / "one", **tolerance)
    for one, other in zip(done.results, apart, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


def test_what_others_read_is_a_result_too(tmp_path):
    rows = Rows((6, 96), [1])

    def body(r):
        doubled = r.map([r["x"]], [], lambda v: v + v)
        return r.normalised(doubled), doubled, r.reduce(doubled)

    x = normal(6, 96)
    results = [((6, 96), F32), ((6, 96), F32), ((6,), F32)]
    want = [normalised(2 * x, -1), 2 * x, (2 * x).sum(-1)]
    made = check(rows.maker, making(rows, body), results, [x], want, tmp_path, atol=1e-4)
    assert made.resources["kernels"] == 1


@pytest.mark.parametrize("target", ["llvm", *GPUS])
def test_one_long_row_is_shared_out(target):
    rows = Rows((1, 10_000_000), [1])
    made = rows, making(rows, lambda r: r.softmax(r["x"])), [((1, 10_000_000), F32)]
    assert kernels(made, target)[1] == 0


@pytest.mark.parametrize("target", ["llvm", *GPUS])
def test_columns_are_not_rows(target):
    rows = Rows((96, 40), [0])
    made = rows, making(rows, lambda r: r.softmax(r["x"])), [((96, 40), F32)]
    assert kernels(made, target)[1] == 0


def test_what_reads_another_row_stays_apart(tmp_path):
    rows = Rows((6, 96), [1])

    def body(r):
        y = r.softmax(r["x"])
        return r.emit(r.maker.nest([y], (6, 96), F32, lambda r, i, j: r[0](5 - i, j)))

    x = normal(6, 96)
    make = making(rows, body)
    check(rows.maker, make, [((6, 96), F32)], [x], [softmax(x, -1)[::-1]], tmp_path)


def test_what_leads_out_of_a_chain_and_back_is_no_part(tmp_path):
    """A transpose between: rows would depend on one another."""
    rows = Rows((64, 64), [1])

    def body(r):
        y = r.softmax(r["x"])
        turned = r.emit(r.maker.nest([y], (64, 64), F32, lambda r, i, j: r[0](j, i)))
        return r.map([y, turned], [], lambda a, b: a * b)

    x = normal(64, 64)
    y = softmax(x, -1)
    check(rows.maker, making(rows, body), [((64, 64), F32)], [x], [y * y.T], tmp_path)


def test_a_chain_has_no_more_calls_than_it_may(monkeypatch):
    monkeypatch.setattr(row_chains, "_MOST_CALLS", 2)
    rows = Rows((6, 96), [1])
    made = rows, making(rows, lambda r: r.softmax(r["x"])), [((6, 96), F32)]
    count, by_rows = kernels(made)
    assert by_rows >= 1
    assert count > 1
