module @complexes {
  func.func @main(%a: tensor<4x3xcomplex<f32>>, %b: tensor<4x3xcomplex<f32>>) -> (tensor<4x3xcomplex<f32>>, tensor<4x3xf32>) {
    %i = arith.constant dense<(0.0, 1.0)> : tensor<4x3xcomplex<f32>>
    %0 = tensor.empty() : tensor<4x3xcomplex<f32>>
    %1 = tensor.empty() : tensor<4x3xf32>
    %2:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b, %i : tensor<4x3xcomplex<f32>>, tensor<4x3xcomplex<f32>>, tensor<4x3xcomplex<f32>>) outs(%0, %1 : tensor<4x3xcomplex<f32>>, tensor<4x3xf32>) {
    ^bb0(%x: complex<f32>, %y: complex<f32>, %z: complex<f32>, %o: complex<f32>, %p: f32):
      %3 = complex.mul %x, %y : complex<f32>
      %4 = complex.add %3, %z : complex<f32>
      %5 = complex.abs %4 : complex<f32>
      %6 = complex.re %x : complex<f32>
      %7 = complex.im %y : complex<f32>
      %8 = complex.create %6, %7 : complex<f32>
      %9 = complex.sub %4, %8 : complex<f32>
      linalg.yield %9, %5 : complex<f32>, f32
    } -> (tensor<4x3xcomplex<f32>>, tensor<4x3xf32>)
    return %2#0, %2#1 : tensor<4x3xcomplex<f32>>, tensor<4x3xf32>
  }
}
