module @regions {
  func.func @main(%a: tensor<16xf32>, %b: tensor<16xi32>, %table: tensor<5x4xf16>) -> (tensor<16xf32>, tensor<16xi32>, tensor<16xi1>) {
    %0 = tensor.empty() : tensor<16xf32>
    %1 = tensor.empty() : tensor<16xi32>
    %2 = tensor.empty() : tensor<16xi1>
    %c4 = arith.constant 4 : index
    %c3 = arith.constant 3 : i32
    %half = arith.constant 0.5 : f32
    %3:3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (15 - d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : tensor<16xf32>, tensor<16xi32>) outs(%0, %1, %2 : tensor<16xf32>, tensor<16xi32>, tensor<16xi1>) {
    ^bb0(%x: f32, %n: i32, %o: f32, %p: i32, %q: i1):
      %i = linalg.index 0 : index
      %j = arith.remui %i, %c4 : index
      %row = arith.index_cast %n : i32 to index
      %4 = tensor.extract %table[%row, %j] : tensor<5x4xf16>
      %5 = arith.extf %4 : f16 to f32
      %6 = math.exp %x : f32
      %7 = arith.mulf %6, %5 : f32
      %8 = arith.cmpf ult, %7, %half : f32
      %9 = arith.select %8, %7, %half : f32
      %10 = math.rsqrt %9 : f32
      %11 = arith.fptosi %10 : f32 to i32
      %12 = arith.divsi %n, %c3 : i32
      %13 = arith.xori %11, %12 : i32
      %14 = arith.cmpi uge, %13, %c3 : i32
      %15 = arith.trunci %13 : i32 to i8
      %16 = arith.extui %15 : i8 to i32
      linalg.yield %10, %16, %14 : f32, i32, i1
    } -> (tensor<16xf32>, tensor<16xi32>, tensor<16xi1>)
    return %3#0, %3#1, %3#2 : tensor<16xf32>, tensor<16xi32>, tensor<16xi1>
  }
}
