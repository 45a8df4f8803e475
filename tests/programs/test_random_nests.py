"""Programs of random nests beside NumPy."""

import numpy as np
import pytest
from relax_programs import Maker, program
from tvm import tirx

from tvm_iree_ext.programs.program_build import build_program


class Random:
    """A program of random nests beside what NumPy makes of the same."""

    DTYPES = ("float32", "float32", "float64", "int32", "int64", "int8", "float16", "bool")

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.dynamic = bool(self.rng.random() < 0.4)
        extents = [1, 2, 3, 7, 16, 33, 70, 130]
        self.symbolic = {e for e in extents if self.dynamic and self.rng.random() < 0.5}
        self.known: set[int] = set()
        inputs = {}
        self.values = []
        for place in range(self.rng.integers(1, 4)):
            shape = tuple(int(self.rng.choice(extents)) for _ in range(3))
            shape = shape[: self.rng.integers(0, 4)]
            dtype = str(self.rng.choice(self.DTYPES))
            self.known.update(shape)
            inputs[f"x{place}"] = (self.named(shape), dtype)
            self.values.append(self.array(shape, dtype))
        self.arguments = list(self.values)
        self.maker = Maker(**inputs)

    def named(self, shape):
        """The shape, with names for the extents that are known only at the call."""
        return tuple(f"n{e}" if e in self.symbolic and e in self.known else e for e in shape)

    def array(self, shape, dtype):
        if dtype == "bool":
            return np.asarray(self.rng.random(shape) < 0.5)
        if "int" in dtype:
            return np.asarray(self.rng.integers(-5, 6, shape)).astype(dtype)
        return np.asarray(self.rng.normal(size=shape)).astype(dtype)

    def make(self, emit):
        """Emit nests; the last few are results."""
        made = list(zip(self.maker.vars, self.values, strict=True))
        for _ in range(self.rng.integers(2, 9)):
            var, value = made[self.rng.integers(len(made))]
            kinds = ["unary", "binary", "broadcast", "transpose", "reduce", "pad", "stride"]
            step = getattr(self, str(self.rng.choice(kinds)))(made, var, value)
            if step is not None:
                call, result = step
                made.append((emit(call), result))
        self.results = made[len(self.values) :][-3:] or made[-1:]
        return [var for var, _ in self.results]

    def nest(self, arguments, shape, dtype, body, **more):
        return self.maker.nest(arguments, self.named(shape), str(dtype), body, **more)

    def unary(self, _made, var, value):
        if value.dtype == bool:
            return self.nest([var], value.shape, "bool", lambda r, *i: tirx.Not(r[0](*i))), ~value
        if value.dtype.kind == "i":
            three = tirx.const(3, str(value.dtype))
            call = self.nest([var], value.shape, value.dtype, lambda r, *i: r[0](*i) * three)
            return call, (value * np.array(3, value.dtype)).astype(value.dtype)
        body = lambda r, *i: tirx.tanh(r[0](*i))  # noqa: E731
        return self.nest([var], value.shape, value.dtype, body), np.tanh(value)

    def binary(self, made, var, value):
        same = [m for m in made if m[1].shape == value.shape and m[1].dtype == value.dtype]
        other, number = same[self.rng.integers(len(same))]
        if value.dtype == bool:
            body = lambda r, *i: tirx.And(r[0](*i), r[1](*i))  # noqa: E731
            return self.nest([var, other], value.shape, "bool", body), value & number
        body = lambda r, *i: r[0](*i) - r[1](*i)  # noqa: E731
        return self.nest([var, other], value.shape, value.dtype, body), value - number

    def broadcast(self, _made, var, value):
        if value.ndim > 2:
            return None
        extent = int(self.rng.choice([5, 17, 40]))
        body = lambda r, i, *rest: r[0](*rest)  # noqa: E731
        shape = (extent, *value.shape)
        return self.nest([var], shape, value.dtype, body), np.broadcast_to(value, shape)

    def transpose(self, _made, var, value):
        order = self.rng.permutation(value.ndim)
        back = np.argsort(order)
        body = lambda r, *i: r[0](*(i[b] for b in back))  # noqa: E731
        result = value.transpose(order)
        return self.nest([var], result.shape, value.dtype, body), result

    def reduce(self, _made, var, value):
        if not value.ndim or value.dtype in (bool, np.int8):
            return None
        axis = int(self.rng.integers(value.ndim))
        out = value.shape[:axis] + value.shape[axis + 1 :]
        is_sum = self.rng.random() < 0.5 and value.dtype != np.float16
        low = 0 if is_sum else (-np.inf if value.dtype.kind == "f" else np.iinfo(value.dtype).min)

        def body(o, r, *i):
            *at, k = i
            element = r[0](*at[:axis], k, *at[axis:])
            return o + element if is_sum else tirx.max(o, element)

        result = (np.sum if is_sum else np.max)(value, axis, keepdims=False)
        reduced = self.named(value.shape)[axis : axis + 1]
        call = self.nest([var], out, value.dtype, body, reduced=reduced, init=low)
        return call, np.asarray(result).astype(value.dtype)

    def pad(self, _made, var, value):
        if not value.ndim or self.dynamic:
            return None
        low, high = (int(e) for e in self.rng.integers(0, 4, 2))
        extent = value.shape[-1]
        shape = (*value.shape[:-1], extent + low + high)
        zero = tirx.const(0, str(value.dtype))

        def body(r, *i):
            inside = tirx.And(i[-1] >= low, i[-1] < low + extent)
            return tirx.if_then_else(inside, r[0](*i[:-1], i[-1] - low), zero)

        result = np.pad(value, [(0, 0)] * (value.ndim - 1) + [(low, high)])
        return self.nest([var], shape, value.dtype, body), result

    def stride(self, _made, var, value):
        if not value.ndim or self.dynamic:
            return None
        result = value[::2]
        body = lambda r, i, *rest: r[0](i * 2, *rest)  # noqa: E731
        return self.nest([var], result.shape, value.dtype, body), result


def check_random(seed, folder):
    """Build the random program of a seed, and compare it with NumPy."""
    case = Random(seed)
    described: list = []

    def make(emit):
        made = case.make(emit)
        described.extend((case.named(v.shape), str(v.dtype)) for _, v in case.results)
        return made

    imported = program(case.maker, make, described)
    got = build_program(imported, folder=folder)(*case.arguments)
    got = got if isinstance(got, tuple) else (got,)
    for one, (_, other) in zip(got, case.results, strict=True):
        assert one.dtype == other.dtype
        loose = 2e-2 if one.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(one, other, rtol=loose, atol=loose)


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed, tmp_path):
    check_random(seed, tmp_path / "p")
