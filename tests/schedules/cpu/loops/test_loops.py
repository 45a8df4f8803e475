"""Plain loops on a CPU that are no function of their own operands alone."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.targets.names import make_target


@pytest.mark.parametrize("length", [3, 19, 32, 33])
def test_what_is_computed_in_place_is_computed_once(tmp_path, length):
    extent = tirx.const(length, "int64")

    @T.prim_func(s_tir=True)
    def doubled(x: T.Buffer((extent,), "float32")):
        for i in T.serial(extent):
            with T.sblock("double"):
                v = T.axis.spatial(extent, i)
                x[v] = x[v] * T.float32(2) + T.float32(1)

    target = make_target("llvm")
    module = tvm.IRModule({"doubled": schedule_loops(doubled, target, "doubled")})
    cpu_pipeline.register()
    library = tmp_path / "doubled.so"
    compile_library(module, target, library, cpu_pipeline.CPU_PIPELINE)
    x = np.arange(length, dtype="float32")
    tvm_ffi.load_module(str(library))["doubled"](x)
    np.testing.assert_array_equal(x, np.arange(length) * 2 + 1)
