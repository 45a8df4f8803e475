"""What is said of a program's operations: their kernels, and why some are plain loops."""

import pytest
from tvm import relax

from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_explanation import explain_program


def explained(signature, body):
    return explain_program(import_program(f"func.func @main{signature} {{\n{body}}}\n"))


def reasons(explanation):
    return [str(one) for one in explanation.fallbacks]


def product(op, lhs, rhs, out):
    """A function of one product into zeros."""
    kind = out.rpartition("x")[2]
    zero = "0.0" if kind.startswith("f") else "0"
    return explained(
        f"(%a: tensor<{lhs}>, %b: tensor<{rhs}>) -> tensor<{out}>",
        f"""  %zero = arith.constant {zero} : {kind}
  %0 = tensor.empty() : tensor<{out}>
  %1 = linalg.fill ins(%zero : {kind}) outs(%0 : tensor<{out}>) -> tensor<{out}>
  %2 = {op} ins(%a, %b : tensor<{lhs}>, tensor<{rhs}>) outs(%1 : tensor<{out}>) -> tensor<{out}>
  return %2 : tensor<{out}>
""",
    )


def generic(maps, iterators, types, region):
    """A ``linalg.generic`` of two operands."""
    names = ", ".join(f"affine_map<{one}>" for one in maps)
    kinds = ", ".join(f'"{one}"' for one in iterators)
    a, b, out = (f"tensor<{one}>" for one in types)
    return explained(
        f"(%a: {a}, %b: {b}, %c: {out}) -> {out}",
        f"""  %0 = linalg.generic {{indexing_maps = [{names}], iterator_types = [{kinds}]}}
      ins(%a, %b : {a}, {b}) outs(%c : {out}) {{
    ^bb0(%x: f32, %y: f32, %s: f32):
      {region}
      linalg.yield %t : f32
  }} -> {out}
  return %0 : {out}
""",
    )


MATMUL = (
    ["(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d2, d1)", "(d0, d1, d2) -> (d0, d1)"],
    ["parallel", "parallel", "reduction"],
    ["4x8xf32", "8x4xf32", "4x4xf32"],
)
SUM = "%p = arith.mulf %x, %y : f32\n%t = arith.addf %s, %p : f32"


@pytest.mark.parametrize(
    ("op", "types", "why"),
    [
        (
            "linalg.matmul",
            ("4x4xi32", "4x4xi32", "4x4xi32"),
            "int32 times int32 in int32; expected floats, or int8 and int4 in int32",
        ),
        (
            "linalg.conv_3d",
            ("6x6x6xf32", "3x3x3xf32", "4x4x4xf32"),
            "an operand goes along (d0 + d3, d1 + d4, d2 + d5); a contraction's axes are each one"
            " dim",
        ),
        (
            "linalg.conv_2d_nhwc_hwcf",
            ("1x6x6x4xi32", "3x3x4x4xi32", "1x4x4x4xi32"),
            "int32 times int32 in int32; expected floats, or int8 and int4 in int32",
        ),
    ],
    ids=["integers", "three_dims", "integer_convolution"],
)
def test_products_that_become_plain_loops_say_why(op, types, why):
    assert reasons(product(op, *types)) == [f"{op} at 5:8: {why}"]


def test_a_region_that_does_more_than_a_contraction_says_so():
    region = "%q = arith.addf %x, %x : f32\n%p = arith.mulf %q, %y : f32\n"
    explanation = generic(*MATMUL, f"{region}%t = arith.addf %s, %p : f32")
    assert reasons(explanation) == [
        "linalg.generic at 2:8: its region does more than to add products of its two operands"
    ]


def test_contractions_and_other_reductions_have_no_reason():
    assert reasons(generic(*MATMUL, SUM)) == []
    largest = "%p = arith.addf %x, %y : f32\n%t = arith.maximumf %s, %p : f32"
    assert reasons(generic(*MATMUL, largest)) == []
    of_one = "%p = arith.mulf %x, %x : f32\n%t = arith.addf %s, %p : f32"
    assert reasons(generic(*MATMUL, of_one)) == []


def test_a_dim_of_one_operand_alone_is_named():
    maps = ["(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d1)", "(d0, d1, d2) -> (d0, d1)"]
    explanation = generic(maps, MATMUL[1], ["4x8xf32", "4xf32", "4x4xf32"], SUM)
    assert reasons(explanation) == [
        "linalg.generic at 2:8: only one operand has d2; each dim of a contraction is of two"
    ]


def followed(rest, results):
    """A product of 8 x 8, and what follows it."""
    kinds = ", ".join(["tensor<8x8xf32>"] * len(results))
    return explained(
        f"(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %h: tensor<8x8xf64>) -> ({kinds})",
        f"""  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = linalg.matmul ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>)
    outs(%1 : tensor<8x8xf32>) -> tensor<8x8xf32>
{rest}
  return {", ".join(results)} : {kinds}
""",
    )


def test_an_epilogue_is_in_the_kernel_of_its_product():
    explanation = followed("  %3 = arith.negf %2 : tensor<8x8xf32>", ["%3"])
    assert reasons(explanation) == []
    (kernel,) = explanation.kernels
    assert kernel.computes == "tvm_iree_ext.contraction"
    assert kernel.sources == ("linalg.matmul at 5:8", "arith.negf at 7:8")


@pytest.mark.parametrize(
    ("rest", "results", "why"),
    [
        (
            "  %3 = arith.negf %2 : tensor<8x8xf32>",
            ["%2", "%3"],
            "its sums are used elsewhere, too",
        ),
        (
            "  %4 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,"
            " affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],"
            ' iterator_types = ["parallel", "parallel"]}'
            " ins(%2, %2 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) {\n"
            "  ^bb0(%x: f32, %y: f32, %z: f32):\n    %s = arith.addf %x, %y : f32\n"
            "    linalg.yield %s : f32\n  } -> tensor<8x8xf32>",
            ["%4"],
            "it does not read each element of the sums in its own place",
        ),
    ],
    ids=["two_uses", "two_orders"],
)
def test_what_follows_a_product_in_a_kernel_of_its_own_says_why(rest, results, why):
    explanation = followed(rest, results)
    (reason,) = reasons(explanation)
    assert reason.endswith(f"at 7:8: it is no epilogue of tvm_iree_ext.contraction: {why}")


def test_one_of_two_products_that_takes_the_rest_leaves_no_reason():
    again = (
        "  %3 = linalg.matmul ins(%b, %a : tensor<8x8xf32>, tensor<8x8xf32>)\n"
        "    outs(%1 : tensor<8x8xf32>) -> tensor<8x8xf32>\n"
        "  %4 = arith.addf %2, %3 : tensor<8x8xf32>"
    )
    explanation = followed(again, ["%4", "%2"])
    assert reasons(explanation) == []
    assert sorted(len(kernel.sources) for kernel in explanation.kernels) == [1, 2]


def test_each_operation_of_a_fused_kernel_is_listed_and_equal_kernels_are_one():
    chain = """
  %n{0} = math.exp %{1} : tensor<8x8xf32>
  %m{0} = math.tanh %n{0} : tensor<8x8xf32>"""
    body = chain.format(0, "a") + chain.format(1, "b")
    explanation = explained(
        "(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)",
        f"{body}\n  return %m0, %m1 : tensor<8x8xf32>, tensor<8x8xf32>\n",
    )
    (kernel,) = explanation.kernels
    assert kernel.sources == ("math.exp at 3:9", "math.tanh at 4:9")
    assert str(explanation) == (
        f"kernel {kernel.name}: plain loops\n  math.exp at 3:9\n  math.tanh at 4:9\n"
        "memory of main: 0.001 MB for a call; 0.001 at once, 0.001 without reuse"
    )


def test_a_module_of_relax_is_explained():
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((3, 40), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.cumsum(x, 1))
        builder.emit_func_output(y)
    explanation = explain_program(builder.get())
    assert "iree_linalg_ext.scan" in [kernel.computes for kernel in explanation.kernels]
