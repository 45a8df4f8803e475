"""Random expressions of the lane, numbers and loads: as the simulator and as LLVM compute them."""

import numpy as np
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.simulator import simulate

LANES, SIZE = 48, 96
INTEGERS = ("int8", "int16", "int32", "int64")
FLOATS = ("float32", "float64", "float16")
ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "min": tirx.min,
    "max": tirx.max,
}
WHOLE = {
    "floordiv": lambda a, b: tirx.floordiv(a, nonzero(b)),
    "floormod": lambda a, b: tirx.floormod(a, nonzero(b)),
    "truncdiv": lambda a, b: tirx.truncdiv(a, nonzero(b)),
    "truncmod": lambda a, b: tirx.truncmod(a, nonzero(b)),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shift": lambda a, b: a >> (b & 3),
}
COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: tirx.EQ(a, b),
    "!=": lambda a, b: tirx.NE(a, b),
}


def nonzero(value):
    """A divisor between 1 and 4."""
    return (value & 3) + 1


class Draw:
    """Draws an expression tree whose values stay far from every type's limits."""

    def __init__(self, draw, lane, buffers):
        self.draw, self.lane, self.buffers = draw, lane, buffers

    def choice(self, options):
        listed = list(options)
        return listed[self.draw(st.integers(0, len(listed) - 1))]

    def leaf(self, dtype):
        kind = self.choice(["number", "lane", "load"])
        if kind == "number":
            return tirx.const(self.draw(st.integers(-5, 5)), dtype)
        if kind == "lane":
            return tirx.Cast(dtype, self.lane & 7)
        at = self.choice([self.lane, self.lane * 2, 47 - self.lane, self.lane // 3 + 7])
        return tirx.Cast(dtype, self.buffers[self.choice(["A", "F"])][at])

    def condition(self, depth):
        dtype = self.choice(["int32", "float32", "int8"])
        compared = COMPARE[self.choice(COMPARE)](self.value(dtype, depth), self.value(dtype, depth))
        how = self.choice(["plain", "plain", "not", "and", "or"])
        if how == "not":
            return tirx.Not(compared)
        if how == "plain" or depth == 0:
            return compared
        other = self.condition(depth - 1)
        return tirx.And(compared, other) if how == "and" else tirx.Or(compared, other)

    def value(self, dtype, depth):
        if depth == 0:
            return self.leaf(dtype)
        whole = dtype not in FLOATS
        kind = self.choice(["operator", "operator", "cast", "select", "guarded"])
        if kind == "cast":
            return tirx.Cast(dtype, self.value(self.choice(["int32", "float32"]), depth - 1))
        if kind in ("select", "guarded"):
            parts = (self.condition(depth - 1), *(self.value(dtype, depth - 1) for _ in range(2)))
            return tirx.Select(*parts) if kind == "select" else tirx.if_then_else(*parts)
        operators = ARITHMETIC | (WHOLE if whole and dtype != "int8" else {})
        how = operators[self.choice(operators)]
        return how(self.value(dtype, depth - 1), self.value(dtype, depth - 1))


def kernel(draw, dtype, depth, threads):
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        buffers = {
            "A": I.arg("A", I.Buffer((SIZE,), "int32", align=4)),
            "F": I.arg("F", I.Buffer((SIZE,), "float32", align=4)),
        }
        out = I.arg("B", I.Buffer((LANES,), dtype, align=np.dtype(dtype).itemsize))
        loop = I.thread_binding(0, LANES, "threadIdx.x") if threads else I.serial(0, LANES)
        with I.sblock("root"), loop as lane, I.sblock("B"):
            at = I.axis.spatial(LANES, lane)
            I.reads(buffers["A"][0:SIZE], buffers["F"][0:SIZE])
            I.writes(out[at])
            I.buffer_store(out, Draw(draw, at, buffers).value(dtype, depth), [at])
    return builder.get()


class Replay:
    """The same choices a second time."""

    def __init__(self, draw):
        self.draw, self.made, self.at = draw, [], None

    def __call__(self, strategy):
        if self.at is None:
            self.made.append(self.draw(strategy))
            return self.made[-1]
        self.at += 1
        return self.made[self.at - 1]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(INTEGERS + FLOATS), st.integers(1, 3))
def test_expressions(lowered, data, dtype, depth):
    choices = Replay(data.draw)
    gpu = kernel(choices, dtype, depth, threads=True)
    choices.at = 0
    cpu = tvm.compile(kernel(choices, dtype, depth, threads=False), target=Target("llvm"))
    rng = np.random.default_rng(0)
    a = rng.integers(-5, 6, SIZE).astype("int32")
    f = rng.integers(-5, 6, SIZE).astype("float32")
    want, found = np.zeros(LANES, dtype), np.zeros(LANES, dtype)
    cpu(a, f, want)
    device = lowered(gpu)
    given_ = {"A": a, "F": f, "B": found}
    used = {str(parameter.name).removesuffix("_ptr") for parameter in device.params}
    simulate(device, {name: given_[name] for name in used}).check()
    np.testing.assert_array_equal(found, want)


def test_offsets_beyond_32_bits_are_those_of_the_device(lowered):
    """A lane's number is as wide as its variable: 2**31 elements from the first one, too."""
    far, size = 3_000_000_000, tirx.const(LANES, "int64")
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        out = I.arg("B", I.Buffer((LANES,), "int64", align=8))
        loop = I.thread_binding(tirx.const(0, "int64"), size, "threadIdx.x")
        with I.sblock("root"), loop as lane, I.sblock("B"):
            at = I.axis.spatial(size, lane)
            I.reads()
            I.writes(out[at])
            I.buffer_store(out, (at & 3) * tirx.const(far, "int64") + 2**31, [at])
    found = np.zeros(LANES, "int64")
    simulate(lowered(builder.get()), {"B": found}).check()
    np.testing.assert_array_equal(found, (np.arange(LANES) & 3) * far + 2**31)
