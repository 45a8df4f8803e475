import ml_dtypes
import numpy as np
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir import scale_bytes


def computed(function, numbers, wide):
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        source = I.arg("source", I.buffer((numbers.size,), str(numbers.dtype), align=1))
        target = I.arg("target", I.buffer((numbers.size,), wide, align=1))
        with I.serial(0, numbers.size) as i, I.sblock("number"):
            at = I.axis.spatial(numbers.size, i)
            I.buffer_store(target, function(source[at]), [at])
    library = tvm.compile(tvm.IRModule({"main": built.get()}), target="llvm")
    found = np.zeros(numbers.size, wide)
    library["main"](numbers, found)
    return found


def test_every_pattern_is_the_number_that_ml_dtypes_says_and_back():
    patterns = np.arange(256, dtype="uint8")
    numbers = computed(scale_bytes.decoded, patterns, "float32")
    want = patterns.view(ml_dtypes.float8_e8m0fnu).astype("float32")
    np.testing.assert_array_equal(numbers, want)
    np.testing.assert_array_equal(computed(scale_bytes.encoded, numbers, "uint8"), patterns)


def test_other_numbers_are_the_nearest_power_of_two_or_nan():
    pairs = [
        (1.2, 1),
        (1.49, 1),
        (1.5, 2),
        (3, 4),
        (1e-45, 2.0**-127),
        (1.4 * 2.0**-127, 2.0**-127),
        (1.6 * 2.0**-127, 2.0**-126),
        (1.4 * 2.0**127, 2.0**127),
        (1.5 * 2.0**127, np.nan),
        *((one, np.nan) for one in (0, -0.0, -2, np.inf, -np.inf, np.nan)),
    ]
    numbers, want = np.array(pairs, "float32").T
    found = computed(scale_bytes.encoded, np.ascontiguousarray(numbers), "uint8")
    np.testing.assert_array_equal(computed(scale_bytes.decoded, found, "float32"), want)
