"""Conversions between element types are those of ml_dtypes; purity is TVM's own word."""

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.tir.purity import is_guard, is_pure
from tvm_iree_ext.tir.tir_expressions import bits, cast, convert, known

# Ties, subnormal numbers of bfloat16, its largest number and what rounds beyond it.
VALUES = np.array(
    [0.0, -0.0, 1.00390625, 1.01171875, -2.5, 1e-40, 3.3e38, 3.4e38, np.inf, -np.inf, np.nan], "f4"
)


def computed(source, dtype, value):
    """``value`` of each element, by a kernel."""
    count = len(source)
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        read = I.arg("read", I.buffer((count,), str(source.dtype), align=1))
        written = I.arg("written", I.buffer((count,), dtype, align=1))
        with I.serial(0, count) as i, I.sblock("element"):
            at = I.axis.spatial(count, i)
            I.buffer_store(written, value(read[at]), [at])
    found = np.zeros(count, numpy_dtype(dtype))
    tvm.compile(tvm.IRModule({"main": built.get()}), target="llvm")["main"](source, found)
    return found


def test_the_pattern_of_a_bfloat16_is_rounded_to_the_nearest_ties_to_even():
    found = computed(VALUES, "uint16", lambda x: bits(x, "bfloat16"))
    want = VALUES.astype(numpy_dtype("bfloat16"))
    number = ~np.isnan(VALUES)
    np.testing.assert_array_equal(found[number], want.view("uint16")[number])
    assert np.isnan(found.view(want.dtype)[~number].astype("f4")).all()


def test_a_constant_has_the_pattern_that_numpy_gives_it():
    for value in (1.00390625, -2.5):
        want = np.array(value, numpy_dtype("bfloat16")).view("uint16")
        assert known(bits(tirx.const(value, "float32"), "bfloat16")) == int(want)
    assert known(bits(tirx.const(-1, "int8"), "int8")) == 255


def test_a_bfloat16_is_the_float32_of_its_pattern():
    patterns = np.arange(0, 1 << 16, 7, dtype="uint16")
    found = computed(
        patterns, "float32", lambda x: cast(tirx.reinterpret("bfloat16", x), "float32")
    )
    np.testing.assert_array_equal(found, patterns.view(numpy_dtype("bfloat16")).astype("f4"))


@pytest.mark.parametrize("way", [cast, convert])
def test_converts_by_way_of_float32_where_a_float_has_8_bits(way):
    assert way(tirx.Var("x", "int32"), "int32").name == "x"
    patterns = np.arange(256, dtype="uint8")
    found = computed(
        patterns, "float64", lambda x: way(tirx.reinterpret("float8_e5m2", x), "float64")
    )
    np.testing.assert_array_equal(found, patterns.view(numpy_dtype("float8_e5m2")).astype("f8"))


def test_a_number_is_known_when_the_kernel_is_built():
    assert (known(3), known(tirx.const(4, "int64")), known(tirx.Var("n", "int64"))) == (3, 4, None)


def test_what_calls_out_is_not_pure():
    x = tirx.Var("x", "float32")
    assert is_pure(tirx.exp(x))
    assert not is_pure(tirx.call_extern("float32", "rand"))
    assert is_guard(tirx.if_then_else(x > 0, x, -x))
    assert not is_guard(tirx.Select(x > 0, x, -x))
