module @slices {
  func.func @main(%a: tensor<8x6xf32>, %b: tensor<2x6xf32>, %c: tensor<?x2xf32>) -> (tensor<11x8xf32>, tensor<8x6xf32>, tensor<?x3xf32>) {
    %zero = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %n = tensor.dim %c, %c0 : tensor<?x2xf32>
    %0 = tensor.extract_slice %a[1, 0] [4, 6] [2, 1] : tensor<8x6xf32> to tensor<4x6xf32>
    %1 = tensor.concat dim(0) %0, %b, %b : (tensor<4x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %2 = tensor.pad %1 low[1, 0] high[2, 2] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
    } : tensor<8x6xf32> to tensor<11x8xf32>
    %3 = tensor.insert_slice %b into %a[3, 0] [2, 6] [1, 1] : tensor<2x6xf32> into tensor<8x6xf32>
    %4 = tensor.extract_slice %a[0, 1] [%n, 3] [1, 2] : tensor<8x6xf32> to tensor<?x3xf32>
    return %2, %3, %4 : tensor<11x8xf32>, tensor<8x6xf32>, tensor<?x3xf32>
  }
  func.func @scalars(%a: tensor<5xf32>, %at: tensor<i32>) -> (tensor<3xf32>, tensor<4x4xi32>) {
    %c1 = arith.constant 1 : index
    %0 = tensor.extract %at[] : tensor<i32>
    %1 = arith.index_cast %0 : i32 to index
    %2 = tensor.extract %a[%1] : tensor<5xf32>
    %3 = tensor.extract %a[%c1] : tensor<5xf32>
    %4 = arith.addf %2, %3 : f32
    %5 = tensor.from_elements %2, %3, %4 : tensor<3xf32>
    %6 = tensor.generate {
    ^bb0(%i: index, %j: index):
      %7 = arith.muli %i, %j : index
      %8 = arith.index_cast %7 : index to i32
      tensor.yield %8 : i32
    } : tensor<4x4xi32>
    return %5, %6 : tensor<3xf32>, tensor<4x4xi32>
  }
}
