module @constants {
  func.func @main() -> (tensor<2x3xf32>, tensor<4xi32>, tensor<2xi1>, tensor<2xbf16>, tensor<3xi64>, tensor<1000x1000xf32>, tensor<2xcomplex<f32>>) {
    %0 = arith.constant dense_resource<blob> : tensor<2x3xf32>
    %1 = arith.constant dense<[1, -2, 3, 4]> : tensor<4xi32>
    %2 = arith.constant dense<[true, false]> : tensor<2xi1>
    %3 = arith.constant dense<[1.5, -2.0]> : tensor<2xbf16>
    %4 = arith.constant dense<7> : tensor<3xi64>
    %5 = arith.constant dense<1.0> : tensor<1000x1000xf32>
    %6 = arith.constant dense<[(1.0, 2.0), (3.0, -1.0)]> : tensor<2xcomplex<f32>>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xf32>, tensor<4xi32>, tensor<2xi1>, tensor<2xbf16>, tensor<3xi64>, tensor<1000x1000xf32>, tensor<2xcomplex<f32>>
  }
}
{-#
  dialect_resources: {
    builtin: {
      blob: "0x400000000000803F0000004000004040000080400000A0400000C040"
    }
  }
#-}
