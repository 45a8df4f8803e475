import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS8, NARROW_FLOATS
from tvm_iree_ext.tir.small_floats import decoded, encoded, halved, widened, widened_narrow


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


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_patterns_below_8_bits_are_numbers_and_come_back(name):
    kind = np.dtype(getattr(ml_dtypes, name))
    count = 1 << ml_dtypes.finfo(kind).bits
    patterns = np.arange(256, dtype="uint8")  # of which the upper bits mean nothing
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        source = I.arg("source", I.buffer((256,), "uint8", align=1))
        wide, same = (I.arg(n, I.buffer((256,), "float32", align=4)) for n in ("wide", "same"))
        back = I.arg("back", I.buffer((256,), "uint8", align=1))
        with I.serial(0, 256) as i, I.sblock("number"):
            at = I.axis.spatial(256, i)
            I.buffer_store(wide, decoded(source[at], name), [at])
            I.buffer_store(same, widened_narrow(source[at], name), [at])
            I.buffer_store(back, encoded(decoded(source[at], name), name), [at])
    library = tvm.compile(tvm.IRModule({"main": built.get()}), target="llvm")
    found, same, back = np.zeros(256, "f4"), np.zeros(256, "f4"), np.zeros(256, "u1")
    library["main"](patterns, found, same, back)
    want = np.resize(patterns[:count].view(kind).astype("f4"), 256)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(same.view("u4"), want.view("u4"))
    np.testing.assert_array_equal(back, patterns % count)
