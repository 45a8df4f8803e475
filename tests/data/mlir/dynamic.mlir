#row = affine_map<(d0, d1) -> (d0, d1)>
module @dynamic {
  func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %rows = tensor.dim %a, %c0 : tensor<?x?xf32>
    %columns = tensor.dim %b, %c1 : tensor<?x?xf32>
    %0 = tensor.empty(%rows, %columns) : tensor<?x?xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<?x?xf32>) -> tensor<?x?xf32>
    %2 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%1 : tensor<?x?xf32>) -> tensor<?x?xf32>
    %3 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<?x?xf32>) outs(%0 : tensor<?x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %5 = math.tanh %in : f32
      linalg.yield %5 : f32
    } -> tensor<?x?xf32>
    %4 = tensor.collapse_shape %3 [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
    return %3, %4 : tensor<?x?xf32>, tensor<?xf32>
  }
}
