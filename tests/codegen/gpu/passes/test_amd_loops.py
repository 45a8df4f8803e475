"""Loops with barriers stay loops in AMD's code; those without are LLVM's to unroll."""

import pytest
from tvm.script import tirx as T

from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.targets.names import make_target


def product_loop(with_barrier):
    """Four passes, each of which turns a vector round through shared memory, or a register's."""

    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((256,), "float32"), y: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "kernel"})
        lane = T.launch_thread("threadIdx.x", 64)
        tile = T.alloc_buffer((64,), "float32", scope="shared")
        total = T.alloc_buffer((1,), "float32", scope="local")
        total[0] = T.float32(0)
        for step in range(4):
            if with_barrier:
                tile[lane] = x[step * 64 + lane]
                total[0] = total[0] + tile[63 - lane]
            else:
                total[0] = total[0] + x[step * 64 + lane]
        y[lane] = total[0]

    return kernel


@pytest.mark.parametrize(("with_barrier", "backward"), [(True, 1), (False, 0)])
def test_a_loop_with_barriers_stays(with_barrier, backward):
    code = compile_device(product_loop(with_barrier), make_target("rocm:gfx942"))
    body = code.assembly.partition("kernel:")[2].partition("s_endpgm")[0]
    assert body.count("s_cbranch") == backward
    assert body.count("s_barrier") == (2 if with_barrier else 0)
