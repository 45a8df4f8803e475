import numpy as np

TEXT = """
func.func @sums() {
  %x = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %t = util.unfoldable_constant dense<true> : tensor<2xi1>
  %one = arith.constant 1 : i32
  %s = arith.addf %x, %x : tensor<2xf32>
  %b = util.optimization_barrier %s : tensor<2xf32>
  check.expect_eq_const(%b, dense<[2.0, 4.0]> : tensor<2xf32>) : tensor<2xf32>
  check.expect_almost_eq(%s, %x, atol 1.0e-3, rtol 1.0e-2) : tensor<2xf32>
  check.expect_true(%one) : i32
  check.expect_all_true(%t) : tensor<2xi1>
  return
}
func.func @more(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
"""


def test_what_is_checked_is_returned_behind_the_results(built):
    program = built(TEXT, only=["sums"])
    (point,) = program.program.functions
    results = program()
    kinds = [(check.kind, check.got, check.want) for check in point.checks]
    assert kinds == [("eq", 0, 1), ("almost_eq", 2, 3), ("true", 4, None), ("all_true", 5, None)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[2], [2, 4])
    assert results[4] == 1
    assert results[5].all()
    assert (point.checks[1].absolute, point.checks[1].relative) == (
        np.float32(1e-3),
        np.float32(1e-2),
    )
    assert point.checks[0].place == "8:3"


def test_functions_are_imported_one_by_one(imported):
    assert [p.name for p in imported(TEXT).functions] == ["sums", "more"]
    failures: dict[str, str] = {}
    text = TEXT.replace(
        "  check.expect_true(%one) : i32\n",
        "  check.expect_true(%one) : i32\n  scf.execute_region { scf.yield }\n",
    )
    program = imported(text, failures=failures)
    assert [p.name for p in program.functions] == ["more"]
    assert list(failures) == ["sums"]
    assert "scf.execute_region: is not supported" in failures["sums"]
