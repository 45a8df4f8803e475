func.func @sum() {
  %a = util.unfoldable_constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %0 = linalg.reduce ins(%a : tensor<2x3xf32>) outs(%zero : tensor<2xf32>) dimensions = [1]
    (%in: f32, %init: f32) {
      %1 = arith.addf %in, %init : f32
      linalg.yield %1 : f32
    }
  check.expect_almost_eq_const(%0, dense<[6.0, 15.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func @shift() {
  %a = util.unfoldable_constant dense<[1, -8, 3]> : tensor<3xi32>
  %one = util.optimization_barrier %a : tensor<3xi32>
  %0 = arith.addi %a, %one : tensor<3xi32>
  %1 = arith.constant dense<[2, -16, 6]> : tensor<3xi32>
  check.expect_eq(%0, %1) : tensor<3xi32>
  check.expect_eq_const(%0, dense<[2, -16, 6]> : tensor<3xi32>) : tensor<3xi32>
  return
}
