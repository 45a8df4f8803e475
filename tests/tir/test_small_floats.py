import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS8
from tvm_iree_ext.tir.small_floats import halved, widened


@pytest.mark.parametrize("name", FLOATS8)
@pytest.mark.parametrize(("to", "wide"), [(halved, "float16"), (widened, "float32")])
def test_every_pattern_is_the_number_that_ml_dtypes_says(name, to, wide):
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        source = I.arg("source", I.buffer((256,), "uint8", align=1))
        target = I.arg("target", I.buffer((256,), wide, align=2))
        with I.serial(0, 256) as i, I.sblock("number"):
            at = I.axis.spatial(256, i)
            I.buffer_store(target, to(tirx.reinterpret(name, source[at])), [at])
    library = tvm.compile(tvm.IRModule({"main": built.get()}), target="llvm")
    patterns, found = np.arange(256, dtype="uint8"), np.zeros(256, wide)
    library["main"](patterns, found)
    want = patterns.view(getattr(ml_dtypes, name)).astype(wide)
    np.testing.assert_array_equal(found, want)
    assert (np.signbit(found) == np.signbit(want))[~np.isnan(want)].all()
