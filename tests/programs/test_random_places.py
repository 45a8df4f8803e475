"""Places that a nest reads at, computed of its loops by random arithmetic, beside NumPy."""

import numpy as np
import pytest
from relax_programs import Maker, normal, program
from tvm import tirx

from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

EXTENTS = (1, 2, 3, 4, 5, 8, 16, 17, 24, 33)


class Places:
    """Nests that read one array at random places."""

    def __init__(self, seed, count=16):
        self.rng = np.random.default_rng(seed)
        self.source = self.shape(3)
        self.maker = Maker(x=(self.source, "float32"))
        self.x = normal(*self.source)
        self.nests = [(self.shape(3), [self.tree(4) for _ in self.source]) for _ in range(count)]
        self.results = [(shape, "float32") for shape, _ in self.nests]

    def shape(self, rank):
        return tuple(int(e) for e in self.rng.choice(EXTENTS, rank))

    def tree(self, depth):
        """A random expression of three loops, as nested tuples."""
        if depth == 0 or self.rng.random() < 0.15:
            return ("loop", int(self.rng.integers(3)))
        kind = str(
            self.rng.choice(["add", "shift", "back", "times", "div", "mod", "div", "mod", "min"])
        )
        first = self.tree(depth - 1)
        if kind in ("add", "min"):
            return (kind, first, self.tree(depth - 1))
        return (kind, first, int(self.rng.choice([1, 2, 3, 4, 5, 8, 12, 17, 97])))

    def value(self, tree, loops, number):
        """What a tree is of loops, which are TIR's variables or NumPy's arrays."""
        kind, *given = tree
        if kind == "loop":
            return loops[given[0]]
        first = self.value(given[0], loops, number)
        if kind in ("add", "min"):
            second = self.value(given[1], loops, number)
            return first + second if kind == "add" else number["min"](first, second)
        by = number["const"](given[1])
        if kind == "shift":
            return first + by
        if kind == "back":
            return by - first
        return first * by if kind == "times" else number[kind](first, by)

    def make(self, emit):
        """Emit the nests."""
        return [emit(self.nest(shape, trees)) for shape, trees in self.nests]

    def nest(self, shape, trees):
        tir = {
            "const": lambda n: tirx.const(n, "int64"), "min": tirx.min,
            "div": tirx.floordiv, "mod": tirx.floormod,
        }  # fmt: skip

        def body(r, *loops):
            at = [
                tirx.floormod(self.value(tree, loops, tir), tir["const"](extent))
                for tree, extent in zip(trees, self.source, strict=True)
            ]
            return r[0](*at)

        return self.maker.nest(list(self.maker.vars), shape, "float32", body)

    def expected(self):
        """What NumPy reads."""
        numpy = {"const": int, "min": np.minimum, "div": np.floor_divide, "mod": np.mod}
        for shape, trees in self.nests:
            loops = np.indices(shape)
            at = [
                np.broadcast_to(self.value(tree, loops, numpy), shape) % extent
                for tree, extent in zip(trees, self.source, strict=True)
            ]
            yield self.x[tuple(at)]


@pytest.mark.costly
@pytest.mark.parametrize("seed", [3, 11, 17, 18])
def test_a_cpu_reads_where_numpy_does(seed, tmp_path):
    places = Places(seed)
    built = build_program(program(places.maker, places.make, places.results), folder=tmp_path / "p")
    for got, want in zip(built(places.x), places.expected(), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_a_gpu_reads_where_numpy_does(target):
    places = Places(18, count=8)
    imported = program(places.maker, places.make, places.results)
    results = simulate_program(imported, target, [places.x]).check().results
    for got, want in zip(results, places.expected(), strict=True):
        np.testing.assert_array_equal(got, want)
