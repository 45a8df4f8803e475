"""Every stage as a kernel, at full size, and what the last one's assembly shows."""

import re

import numpy as np
import pytest
import tvm
from tvm.target import Target

import tvm_iree_ext as ext
from tvm_iree_ext import vector
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.vector import article_programs
from tvm_iree_ext.vector.patterns import RegisterWidths, Tiling

PROGRAMS = {"dot": article_programs.dot, "conv": article_programs.conv}


def assembly(program, mcpu):
    cpu_pipeline.register()
    function = program.prim_func().with_attr("global_symbol", "main")
    target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": mcpu})
    library = tvm.compile(
        tvm.IRModule({"main": function}), target=target, tir_pipeline=cpu_pipeline.CPU_PIPELINE
    )
    return library.mod.inspect_source("asm")


def innermost_loops(text):
    """The lines from a label to a jump back to it that have no such pair inside."""
    lines = [line.strip() for line in text.splitlines()]
    labels = {line[:-1]: place for place, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for place, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\S+)$", line)
        if jump and labels.get(jump.group(1), place) < place:
            loops.append((labels[jump.group(1)], place))
    return [
        lines[a : b + 1]
        for a, b in loops
        if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)
    ]


def count(lines, pattern):
    return sum(re.match(pattern, line) is not None for line in lines)


@pytest.mark.parametrize(
    ("mcpu", "tile", "register", "bits"),
    [
        ("haswell", (4, 4, 4), "xmm", 128),
        ("haswell", (4, 8, 4), "ymm", 256),
        ("skylake-avx512", (4, 16, 4), "zmm", 512),
    ],
)
def test_the_inner_loop_of_dot_is_fma_on_registers(mcpu, tile, register, bits):
    rows, columns, depth = tile
    tiling = Tiling((8, 32), (rows, columns), (depth,))
    *_, last = vector.stages(article_programs.dot(), RegisterWidths(bits, bits), tiling)
    loops = [
        loop
        for loop in innermost_loops(assembly(last.program, mcpu))
        if count(loop, r"vfmadd\d+ps")
    ]
    assert loops
    for loop in loops:
        assert count(loop, r"vfmadd\d+ps\s") == rows * depth * -(-columns // (bits // 32))
        assert count(loop, rf"vfmadd\d+ps\s.*%{register}\d+, %{register}\d+$") == rows * depth
        assert count(loop, rf"vmov\w+\s+\S*\(.*\), %{register}\d+$") == depth  # rows of b
        assert count(loop, r"vbroadcastss\s+\S*\(") == (0 if register == "zmm" else rows * depth)
        assert count(loop, r"vmov\w+\s+%[xyz]mm\d+, \S*\(") == 0  # no store
        assert not any("%rsp" in line for line in loop)


@pytest.mark.costly
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_stage_at_full_size_gives_what_the_first_gives(name):
    program = PROGRAMS[name]()
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, one.shape).astype(np.float32) for one in program.inputs]
    want, texts = None, set()
    for stage in vector.stages(program):
        if stage.text in texts:  # decomposing changes nothing here
            continue
        texts.add(stage.text)
        got = np.asarray(ext.build(stage.program)(*arrays))
        want = got if want is None else want
        np.testing.assert_array_equal(got, want, err_msg=stage.name)
    assert len(texts) == 8
    if name == "dot":
        a, b, sub = arrays
        np.testing.assert_array_equal(want, a @ b - sub)


def test_products_of_conv_are_those_of_the_nest():
    """Loops of 3 x 3 with 6 fma of 4 lanes are 8 outputs of 27 products each."""
    *_, last = vector.stages(article_programs.conv())
    trips = [loop.operand("upper").constant for loop in last.program.find("scf.for")]
    assert trips == [3, 3]
    assert 9 * last.counts["loop"].of("fma 4") * 4 == 8 * 27
