"""The final form of the article's product, as machine code: its inner loop is multiply-adds."""

import re

import numpy as np
import pytest
import tvm

import tvm_iree_ext as ext
from tvm_iree_ext import vector
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.targets.names import make_target


def dot(rows, columns, depth):
    """A B - S with accumulators of ``rows`` vectors of ``columns`` lanes, carried by the loop."""
    m, k, n = 128, 256, 64
    with vector.program("dot") as b:
        a = b.argument("a", vector.tensor((m, k)))
        c = b.argument("b", vector.tensor((k, n)))
        s = b.argument("sub", vector.tensor((m, n)))
        with b.forall(m // rows, n // columns, outs=[b.empty((m, n))], mapping="thread") as tile:
            i, j = tile.indices[0] * rows, tile.indices[1] * columns
            zero = b.constant(0.0, vector.vector((columns,)))
            with b.loop(0, k, depth, carry=[zero] * rows, hint="k") as loop:
                ks = b.unrolled(depth)
                left = [b.transfer_read(a, [i + r, loop.index], (depth,), in_bounds=[True])
                        for r in range(rows)]  # fmt: skip
                right = [b.transfer_read(c, [loop.index + x, j], (columns,), in_bounds=[True])
                         for x in ks]  # fmt: skip
                sums = list(loop.carried)
                for r in b.unrolled(rows):
                    for x in ks:
                        sums[r] = b.fma(b.splat(left[r][x], (columns,)), right[x], sums[r])
                loop.yield_(*sums)
            out = tile.carried[0]
            for r in b.unrolled(rows):
                at = [i + r, j]
                row = b.transfer_read(s, at, (columns,), in_bounds=[True])
                out = b.transfer_write(loop.results[r] - row, out, at, in_bounds=[True])
            tile.yield_(out)
        b.returns(d=tile.result)
    return b.program


def innermost_loops(assembly):
    """The instructions of each loop that contains no other, by its backward jump."""
    lines = assembly.splitlines()
    labels, loops = {}, []
    for number, line in enumerate(lines):
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = number
        jump = re.match(r"\s+(?:j\w+|b\S*|cbnz|cbz|tbnz|tbz)\s+(?:\w+, )*(\.L\w+)", line)
        if jump and jump[1] in labels:
            loops.append((labels[jump[1]], number))
    for first, last in loops:
        inside = [
            one for one in loops if one != (first, last) and first <= one[0] <= one[1] <= last
        ]
        if not inside:
            body = (line.strip() for line in lines[first + 1 : last + 1])
            yield [line for line in body if line and line[0] not in ".#/"]


TARGETS = [
    ("llvm:haswell", 4, "vfmadd", "xmm", "%rsp"),
    ("llvm:haswell", 8, "vfmadd", "ymm", "%rsp"),
    ("llvm:skylake-avx512", 16, "vfmadd", "zmm", "%rsp"),
    ("llvm:neoverse-n1@aarch64-linux-gnu", 4, "fmla", ".4s", "[sp"),
]


@pytest.mark.parametrize(("target", "columns", "fma", "register", "stack"), TARGETS)
@pytest.mark.parametrize(("rows", "depth"), [(4, 4), (2, 8)])
def test_the_inner_loop_is_multiply_adds(target, columns, fma, register, stack, rows, depth):
    cpu_pipeline.register()
    module = tvm.IRModule({"dot": dot(rows, columns, depth).prim_func()})
    built = tvm.compile(module, target=make_target(target), tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    loops = [
        loop
        for loop in innermost_loops(built.mod.inspect_source("asm"))
        if any(fma in line for line in loop)
    ]
    assert loops
    for loop in loops:
        multiply_adds = [line for line in loop if fma in line]
        assert len(multiply_adds) == rows * depth
        assert all(register in line for line in multiply_adds)
        stores = [line for line in loop if re.match(r"v?mov\w*\s+%\w+, .*\(|st[rp]\s", line)]
        assert stores == []
        assert not any(stack in line for line in loop)


@pytest.mark.parametrize("target", ["llvm:nehalem", "llvm:x86-64"])
def test_a_processor_without_fma_multiplies_and_adds(target):
    """The C library's fmaf, a call for each lane, would take a hundred times as long."""
    cpu_pipeline.register()
    module = tvm.IRModule({"dot": dot(4, 4, 4).prim_func()})
    built = tvm.compile(module, target=make_target(target), tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    text = built.mod.inspect_source("asm")
    assert "fma" not in text
    (loop,) = {tuple(one) for one in innermost_loops(text) if any("mulps" in line for line in one)}
    for instruction in ("mulps", "addps"):
        assert sum(line.startswith(instruction) for line in loop) == 16
    assert not any(line.startswith("call") for line in loop)


def test_the_product_is_right():
    rng = np.random.default_rng(0)
    shapes = {"a": (128, 256), "b": (256, 64), "sub": (128, 64)}
    arrays = {n: rng.integers(-4, 5, shape).astype(np.float32) for n, shape in shapes.items()}
    program = dot(4, 16, 4)
    assert program.flops() == 2 * 128 * 256 * 64
    counts = program.counts()["loop"]
    assert (counts["fma 16"], counts["splat 16"], counts.of("transfer_write")) == (16, 16, 0)
    want = arrays["a"] @ arrays["b"] - arrays["sub"]
    np.testing.assert_array_equal(ext.build(program)(*arrays.values()), want)
