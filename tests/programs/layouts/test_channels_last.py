"""Chains of convolutions come with channels last: what is moved, where, and that all is right."""

import json
from collections import Counter

import numpy as np
import pytest
import tvm_ffi
from random_convolutions import Chain, convolved
from relax_programs import Maker, check, normal, program
from tvm import ir

from tvm_iree_ext import ops
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.programs import program_lowering
from tvm_iree_ext.programs.base.relax_passes import prim_functions, relax_functions
from tvm_iree_ext.programs.kernel_table import op_key
from tvm_iree_ext.programs.layouts.channels_last import ChannelsLast
from tvm_iree_ext.programs.program_lowering import fused_program
from tvm_iree_ext.targets.names import make_target

CPU = make_target({"kind": "llvm", "mcpu": "znver4"})
CONVOLUTION = ("convolution", {"filters": 16, "groups": 1, "kernel": (3, 3), "stride": 1})
POINTWISE = ("pointwise", {"filters": 16})
SHAPE = (2, 16, 5, 9)


def step(name, **given):
    return name, given


def called(imported, target=CPU):
    """What a program's calls are of, when all is fused: an op, or a function's name."""
    fused = fused_program(imported, target)
    keys = {var.name_hint: op_key(one) for var, one in prim_functions(fused.module).items()}
    names: list[str] = []
    for function in relax_functions(fused.module).values():
        tvm_ffi.structural_walk(function.body, (ir.GlobalVar, lambda v: names.append(v.name_hint)))
    return [name if keys[name] is None else fused.ops[keys[name]] for name in names]


def made(imported, target=CPU):
    """How many convolutions have channels first and last, and how many tensors are moved."""
    found = Counter(moves=0)
    for one in called(imported, target):
        if isinstance(one, Conv2d):
            found["last" if one.channels_last else "first"] += 1
        elif isinstance(one, str) and one.startswith("move"):
            found["moves"] += 1
    return found


def counted(**numbers):
    return Counter({"moves": 0, **numbers})


CHAINS = {
    # Batch norm and ReLU between: in at the start, back at the end.
    "chain": ([CONVOLUTION, step("scaled"), step("relu"), CONVOLUTION], 2),
    "alone": ([CONVOLUTION], 2),
    "silu": ([CONVOLUTION, step("silu"), CONVOLUTION], 2),
    # The other input is moved, too.
    "residual of an input": ([CONVOLUTION, step("added", place=0), CONVOLUTION], 3),
    "residual of an image of the chain": (
        [CONVOLUTION, step("relu"), CONVOLUTION, step("added", place=2), CONVOLUTION],
        2,
    ),
    "pooling": ([CONVOLUTION, step("pooled"), step("relu"), CONVOLUTION], 2),
    "one after the other along channels": (
        [CONVOLUTION, step("relu"), CONVOLUTION, step("joined", place=2), CONVOLUTION],
        2,
    ),
    "group norm": ([CONVOLUTION, step("normed"), CONVOLUTION], 2),
    "channels by turns": ([CONVOLUTION, step("shuffled"), CONVOLUTION], 2),
    # What joins channels with pixels is written as it was.
    "all in a line": ([CONVOLUTION, step("flat"), CONVOLUTION], 4),
    "a gate for each channel": ([CONVOLUTION, step("gated"), CONVOLUTION], 2),
    "twice as wide": ([CONVOLUTION, step("upsampled"), CONVOLUTION], 2),
    "a line of pixels": ([CONVOLUTION, step("lines"), CONVOLUTION], 2),
    "a matrix in the chain": ([CONVOLUTION, POINTWISE, step("relu"), CONVOLUTION], 2),
    "a matrix that begins with an image": (
        [CONVOLUTION, step("pointwise", filters=16, begins=2), CONVOLUTION],
        2,
    ),
    # The matrix at the end writes its result moved back.
    "depthwise": ([CONVOLUTION, step("depthwise"), step("relu"), POINTWISE], 1),
    "strides": (
        [CONVOLUTION, step("convolution", filters=32, groups=2, kernel=(3, 1), stride=2)],
        2,
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_moved_at_its_ends_alone(name, tmp_path):
    """And computes the same."""
    steps, moves = CHAINS[name]
    chain = Chain(0, dynamic=False, shape=SHAPE, results=[-1])
    imported = chain.program(steps)
    last = sum(kind in ("convolution", "depthwise") for kind, _ in steps)
    assert made(imported) == counted(moves=moves, last=last)
    chain.check(imported, tmp_path / "p")


@pytest.mark.parametrize("name", ["group norm", "a matrix that begins with an image"])
def test_programs_compute_the_same_without(name, tmp_path, monkeypatch):
    monkeypatch.setattr(program_lowering, "ChannelsLast", _Nothing)
    steps, _ = CHAINS[name]
    chain = Chain(0, dynamic=False, shape=SHAPE, results=[-1])
    imported = chain.program(steps)
    assert made(imported)["last"] == 0
    chain.check(imported, tmp_path / "p")


class _Nothing:
    def __init__(self, mod, *_):
        self.mod = mod

    def run(self, _entries):
        return self.mod


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_extents_may_be_known_at_the_call_only(dtype, tmp_path):
    """Batch, rows and columns; of any length then."""
    steps = [CONVOLUTION, step("normed"), step("silu"), step("gated"), CONVOLUTION]
    chain = Chain(1, dtype, dynamic=True, shape=SHAPE, results=[-1])
    imported = chain.program(steps)
    assert made(imported) == counted(moves=2, last=2)
    built = chain.check(imported, tmp_path / "p")
    other = Chain(1, dtype, dynamic=True, shape=(1, 16, 3, 20), results=[-1])
    other.program(steps)
    got = built(*other.arguments)
    assert got.shape == (1, 16, 3, 20)


def test_an_image_that_is_a_result_too_is_moved_back_for_it(tmp_path):
    chain = Chain(2, dynamic=False, shape=SHAPE, results=[2, 4])
    imported = chain.program([CONVOLUTION, step("relu"), CONVOLUTION])
    assert made(imported) == counted(moves=3, last=2)
    chain.check(imported, tmp_path / "p")


def test_an_image_of_two_convolutions_is_moved_once(tmp_path):
    """The second of which begins with it, and their filter is one."""
    m = Maker(x=(SHAPE, "float32"))
    taps = m.parameter("taps", normal(16, 16, 3, 3) / np.float32(12))
    plain = ops.conv_2d(SHAPE, (16, 16, 3, 3), layout="NCHW", padding=1, algorithm="im2col")
    begun = ops.conv_2d(
        SHAPE,
        (16, 16, 3, 3),
        [SHAPE],
        layout="NCHW",
        padding=1,
        algorithm="im2col",
        epilogue="arg0 + arg1",
    )

    def make(emit):
        first = emit(m.op("first", plain, [m["x"], taps], SHAPE, "float32"))
        return [first, emit(m.op("second", begun, [m["x"], taps, m["x"]], SHAPE, "float32"))]

    x = normal(*SHAPE)
    results = [(SHAPE, "float32")] * 2
    assert made(program(m, make, results)) == counted(moves=3, last=2)
    m = Maker(x=(SHAPE, "float32"))
    taps = m.parameter("taps", normal(16, 16, 3, 3) / np.float32(12))
    y = convolved(x, m.parameters["taps"], 1, (1, 1), 1)
    built = check(m, make, results, [x], [y, y + x], tmp_path, rtol=1e-4, atol=1e-4)
    assert list(constants_of(built)) == ["taps.2310"]


def test_filters_lie_in_panels_of_the_moved_ones(tmp_path):
    chain = Chain(3, dynamic=False, shape=SHAPE, results=[-1])
    built = chain.check(chain.program([CONVOLUTION, step("depthwise")]), tmp_path / "p")
    shapes = constants_of(built)
    assert sorted(shapes) == ["weight0.folded", "weight1.2310.panels", "weight2.2310"]
    assert shapes["weight2.2310"] == (3, 3, 1, 16)


def constants_of(built):
    """The constants in an artifact, by name: their shapes."""
    manifest = json.loads((built.folder / "manifest.json").read_text())
    return {one["name"]: tuple(one["shape"]) for one in manifest["parameters"]}


# What stays as it is.


@pytest.mark.parametrize(
    ("filters", "groups"),
    [(3, 1), (16, 4)],
    ids=["few filters", "few filters in each group"],
)
def test_a_convolution_whose_filters_fill_no_vector_stays(filters, groups):
    chain = Chain(4, dynamic=False, shape=SHAPE, results=[-1])
    small = step("convolution", filters=filters, groups=groups, kernel=(3, 3))
    assert made(chain.program([small])) == counted(first=1)


def test_gpus_take_images_as_they_are():
    chain = Chain(5, dynamic=False, shape=SHAPE, results=[-1])
    gpu = make_target({"kind": "cuda", "arch": "sm_80"})
    assert made(chain.program(CHAINS["chain"][0]), gpu) == counted(first=2)


def test_products_that_are_in_no_chain_stay_whatever_else_is_convolved():
    """Of ``a @ (b @ c)`` in batches, the inner one is as an image whose channels are summed."""
    shape = (4, 16, 16)
    matmul = ops.contraction(
        shape,
        shape,
        indexing_maps=[
            IndexingMap(4, ((0,), (1,), (3,))),
            IndexingMap(4, ((0,), (3,), (2,))),
            IndexingMap(4, ((0,), (1,), (2,))),
        ],
    )
    plain = ops.conv_2d(SHAPE, (16, 16, 3, 3), layout="NCHW", padding=1, algorithm="im2col")
    m = Maker(x=(SHAPE, "float32"), **dict.fromkeys("abc", (shape, "float32")))
    taps = m.parameter("taps", normal(16, 16, 3, 3))

    def make(emit):
        inner = emit(m.op("matmul", matmul, [m["b"], m["c"]], shape, "float32"))
        outer = emit(m.op("matmul", matmul, [m["a"], inner], shape, "float32"))
        return [emit(m.op("convolution", plain, [m["x"], taps], SHAPE, "float32")), outer]

    imported = program(m, make, [(SHAPE, "float32"), (shape, "float32")])
    assert made(imported) == counted(moves=2, last=1)
    assert called(imported).count(matmul) == 2


def test_winograd_stays_what_it_is():
    m = Maker(x=(SHAPE, "float32"))
    taps = m.parameter("taps", normal(16, 16, 3, 3))
    op = ops.conv_2d(SHAPE, (16, 16, 3, 3), layout="NCHW", algorithm="winograd", output_tile_size=2)
    shape = (2, 16, 3, 7)
    imported = program(
        m,
        lambda emit: [emit(m.op("convolution", op, [m["x"], taps], shape, "float32"))],
        [(shape, "float32")],
    )
    (found,) = (one for one in called(imported) if isinstance(one, Conv2d))
    assert (found.channels_last, found.algorithm, found.output_tile_size) == (True, "winograd", 2)


def test_a_program_without_such_convolutions_is_the_same():
    m = Maker(x=((8, 8), "float32"))
    op = ops.matmul((8, 8), (8, 8))
    imported = program(
        m,
        lambda emit: [emit(m.op("product", op, [m["x"], m["x"]], (8, 8), "float32"))],
        [((8, 8), "float32")],
    )
    mod = ChannelsLast(imported.module, dict(imported.ops), {}, CPU).run(["main"])
    assert mod.same_as(imported.module)


# Whatever stands in a chain.


@pytest.mark.costly
@pytest.mark.parametrize("seed", [105, 113, 120, 147, 156])
def test_random_chains_beside_numpy(seed, tmp_path):
    chain = Chain(seed)
    chain.check(chain.program(), tmp_path / "p")


def test_a_random_chain_of_float16(tmp_path):
    chain = Chain(3, "float16")
    chain.check(chain.program(), tmp_path / "p")
