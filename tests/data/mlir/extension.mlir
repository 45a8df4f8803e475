module @extension {
  func.func @main(%x: tensor<6x8xf32>, %at: tensor<3x1xi32>, %updates: tensor<3x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x3xf32>, tensor<6x3xi32>, tensor<3x8xf32>) {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<6xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<6xf32>) -> tensor<6xf32>
    %2 = tensor.empty() : tensor<6x8xf32>
    %3:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<6x8xf32>) outs(%2, %1 : tensor<6x8xf32>, tensor<6xf32>) {
    ^bb0(%a: f32, %b: f32):
      %20 = arith.addf %a, %b : f32
      iree_linalg_ext.yield %20 : f32
    } -> tensor<6x8xf32>, tensor<6xf32>
    %4 = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%updates, %at : tensor<3x8xf32>, tensor<3x1xi32>) outs(%x : tensor<6x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %20 = arith.addf %b, %a : f32
      iree_linalg_ext.yield %20 : f32
    } -> tensor<6x8xf32>
    %5 = tensor.empty() : tensor<6x3xf32>
    %6 = tensor.empty() : tensor<6x3xi32>
    %low = arith.constant 0xFF800000 : f32
    %none = arith.constant 2147483647 : i32
    %7 = linalg.fill ins(%low : f32) outs(%5 : tensor<6x3xf32>) -> tensor<6x3xf32>
    %8 = linalg.fill ins(%none : i32) outs(%6 : tensor<6x3xi32>) -> tensor<6x3xi32>
    %9:2 = iree_linalg_ext.topk dimension(1) ins(%4 : tensor<6x8xf32>) outs(%7, %8 : tensor<6x3xf32>, tensor<6x3xi32>) {
    ^bb0(%a: f32, %b: f32):
      %20 = arith.cmpf ogt, %a, %b : f32
      iree_linalg_ext.yield %20 : i1
    } -> tensor<6x3xf32>, tensor<6x3xi32>
    %10 = tensor.empty() : tensor<3x8xf32>
    %11 = iree_linalg_ext.gather dimension_map = [0] ins(%x, %at : tensor<6x8xf32>, tensor<3x1xi32>) outs(%10 : tensor<3x8xf32>) -> tensor<3x8xf32>
    return %3#0, %4, %9#0, %9#1, %11 : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x3xf32>, tensor<6x3xi32>, tensor<3x8xf32>
  }
  func.func @sorted(%keys: tensor<4x9xi32>, %values: tensor<4x9xf32>) -> (tensor<4x9xi32>, tensor<4x9xf32>) {
    %0:2 = iree_linalg_ext.sort dimension(1) outs(%keys, %values : tensor<4x9xi32>, tensor<4x9xf32>) {
    ^bb0(%a: i32, %b: i32, %c: f32, %d: f32):
      %1 = arith.cmpi slt, %a, %b : i32
      iree_linalg_ext.yield %1 : i1
    } -> tensor<4x9xi32>, tensor<4x9xf32>
    return %0#0, %0#1 : tensor<4x9xi32>, tensor<4x9xf32>
  }
}
