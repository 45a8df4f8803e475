"""Which caches lines are fetched into ahead of their use: what kernels say, or the target."""

import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.targets.names import make_target


def kernel(**how):
    """Fetches one line, and does nothing else."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("fetches")
        I.func_attr({"global_symbol": "fetches", "tirx.noalias": True})
        x = I.arg("x", I.buffer([64], "float32", align=4))
        with I.sblock("root"), emit.serial(4) as i:
            emit.prefetch(x, i * 16, **how)
    return builder.get()


def instruction(mcpu, **how):
    """The instruction that it becomes."""
    cpu_pipeline.register()
    target = make_target(f"llvm:{mcpu}")
    module = tvm.IRModule({"fetches": kernel(**how)})
    library = tvm.compile(module, target, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    words = library.mod.inspect_source("asm").split()
    return {word for word in words if word.startswith("prefetch")}


@pytest.mark.parametrize(
    ("mcpu", "found"),
    [
        ("znver4", "prefetcht1"),
        ("znver3", "prefetcht1"),
        ("graniterapids", "prefetcht0"),
        ("x86-64", "prefetcht0"),
    ],
)
def test_the_target_says_where_what_is_read_goes(mcpu, found):
    assert instruction(mcpu) == {found}


@pytest.mark.parametrize("mcpu", ["znver4", "graniterapids"])
def test_a_kernel_may_say_so_itself(mcpu):
    assert instruction(mcpu, nearest=True) == {"prefetcht0"}
    assert instruction(mcpu, nearest=False) == {"prefetcht1"}
    assert instruction(mcpu, write=True) == {"prefetchw"}
