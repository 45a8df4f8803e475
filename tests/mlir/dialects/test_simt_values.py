"""to_simt and to_simd: inside a function, and what lanes hold as its arguments and results."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.layout import NestedLayout, to_simt
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

LAYOUT = NestedLayout((2, 1), (1, 2), (1, 1), (2, 2), (1, 2), (1, 0), (1, 2))
OTHER = NestedLayout((2, 1), (1, 2), (1, 1), (2, 2), (1, 2), (1, 0), (2, 1))
WHOLE, PARTS, PACKED = "vector<4x8xi32>", "vector<1x4xi32>", "vector<1x2x1x1x1x2xi32>"
X = np.arange(32, dtype="i4").reshape(4, 8)
Y = to_simt(X, LAYOUT, 2, 4)
HARDWARE = (
    " attributes {translation_info = #iree_codegen.translation_info<pipeline ="
    " #iree_gpu.pipeline<VectorDistribute> workgroup_size = [64, 4, 1] subgroup_size = 64>}"
)


def laid_out(result, value, layout=LAYOUT):
    return f"  %{result} = iree_vector_ext.to_layout %{value} to layout({layout}) : {WHOLE}\n"


def simt(result, value, parts=PARTS):
    return f"  %{result} = iree_vector_ext.to_simt %{value} : {WHOLE} -> {parts}\n"


def simd(result, value, parts=PARTS):
    return f"  %{result} = iree_vector_ext.to_simd %{value} : {parts} -> {WHOLE}\n"


def function(name, arguments, body, result, attributes=""):
    value, kind = result
    given = ", ".join(f"%{name}: {of}" for name, of in arguments.items())
    body += f"  return %{value} : {kind}\n"
    return f"func.func @{name}({given}) -> {kind}{attributes} {{\n{body}}}\n"


THREE = f"  %three = arith.constant dense<3> : {PARTS}\n"
FUNCTIONS = {
    "gives": (({"x": WHOLE}, laid_out(0, "x") + simt(1, 0), (1, PARTS)), [X], Y),
    "gives_packed": (
        ({"x": WHOLE}, laid_out(0, "x") + simt(1, 0, PACKED), (1, PACKED)),
        [X],
        to_simt(X, LAYOUT, 2, 4, packed=True),
    ),
    "gives_before": (({"x": WHOLE}, simt(1, "x") + laid_out(0, "x"), (1, PARTS)), [X], Y),
    "takes": (({"y": PARTS}, simd(0, "y") + laid_out(1, 0), (1, WHOLE)), [Y], X),
    "takes_packed": (
        ({"y": PACKED}, simd(0, "y", PACKED) + laid_out(1, 0), (1, WHOLE)),
        [to_simt(X, LAYOUT, 2, 4, packed=True)],
        X,
    ),
    "computes": (
        (
            {"y": PARTS, "x": WHOLE},
            f"{THREE}  %0 = arith.addi %y, %three : {PARTS}\n"
            + laid_out(1, "x")
            + f"  %2 = arith.addi %1, %1 : {WHOLE}\n"
            + simt(3, 2)
            + f"  %4 = arith.muli %three, %3 : {PARTS}\n  %5 = arith.subi %4, %0 : {PARTS}\n",
            (5, PARTS),
        ),
        [Y, X],
        5 * Y - 3,
    ),
    "there_and_back": (({"x": WHOLE}, simt(0, "x") + simd(1, 0), (1, WHOLE)), [X], X),
    "on_hardware": (
        ({"x": WHOLE}, laid_out(0, "x") + simt(1, 0), (1, PARTS), HARDWARE),
        [X],
        to_simt(X, LAYOUT, 4, 64),
    ),
}


@pytest.fixture(scope="module")
def text():
    return "".join(function(name, *given) for name, (given, _, _) in FUNCTIONS.items())


@pytest.fixture(scope="module")
def program(built, text):
    return built(text)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_callers_give_and_get_what_every_lane_holds(program, name):
    _, given, want = FUNCTIONS[name]
    np.testing.assert_array_equal(program(*given, function=name)[0], want)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("name", ["gives_packed", "computes"])
def test_on_gpus_as_well(imported, name, target):
    given, arrays, want = FUNCTIONS[name]
    done = simulate_program(imported(function(name, *given)), target, arrays).check()
    np.testing.assert_array_equal(done.results[0], want)


@pytest.mark.costly
@pytest.mark.parametrize(("element", "dtype"), [("f8E4M3FN", "u1"), ("i4", "i1"), ("f16", "f2")])
def test_elements_of_any_type(run, element, dtype):
    def of(kind):
        return kind.replace("i32", element)

    body = laid_out(0, "x") + simt(1, 0)
    text = of(function("f", {"x": WHOLE}, body, (1, PARTS)))
    given = (X % 8).astype(dtype)
    np.testing.assert_array_equal(run(text, given)[0], to_simt(given, LAYOUT, 2, 4))
    back = of(function("f", {"y": PARTS}, simd(0, "y") + laid_out(1, 0), (1, WHOLE)))
    np.testing.assert_array_equal(run(back, to_simt(given, LAYOUT, 2, 4))[0], given)


REFUSED = {
    "no layout": (
        function("f", {"x": WHOLE}, simt(0, "x"), (0, PARTS)),
        "%0 is what lanes hold of a vector, and no iree_vector_ext.to_layout says by which layout",
    ),
    "no layout of an argument": (
        function("f", {"y": PARTS}, simd(0, "y"), (0, WHOLE)),
        "%arg0 is what lanes hold of a vector, and no",
    ),
    "two layouts": (
        function(
            "f",
            {"x": WHOLE},
            laid_out(0, "x")
            + laid_out(1, "x", OTHER)
            + f"  %2 = arith.addi %0, %1 : {WHOLE}\n"
            + simt(3, 2),
            (3, PARTS),
        ),
        "%3 is what lanes hold by two layouts",
    ),
    "another shape": (
        function(
            "f",
            {"x": WHOLE},
            laid_out(0, "x") + simt(1, 0, "vector<2x2xi32>"),
            (1, "vector<2x2xi32>"),
        ),
        r"%1 has the shape \[2, 2\]; by its layout a lane holds \[1, 4\], or packed \[1, 2, 1, 1",
    ),
    "hardware": (
        function(
            "f",
            {"x": WHOLE},
            laid_out(0, "x") + simt(1, 0),
            (1, PARTS),
            HARDWARE.replace("[64, 4, 1] subgroup_size = 64", "[64, 3, 1] subgroup_size = 64"),
        ),
        "num_subgroups is 3; .* takes a multiple of 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(imported, case):
    text, message = case
    with pytest.raises(MlirError, match=message):
        imported(text)
