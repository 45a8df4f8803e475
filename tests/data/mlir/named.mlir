module @named {
  func.func @main(%x: tensor<1x9x9x3xf32>, %w: tensor<3x3x3x4xf32>) -> (tensor<1x3x3x4xf32>, tensor<4x9xf32>, tensor<4xf32>) {
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %0 = tensor.empty() : tensor<1x7x7x4xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32>
    %2 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x9x9x3xf32>, tensor<3x3x3x4xf32>) outs(%1 : tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32>
    %window = tensor.empty() : tensor<2x2xf32>
    %3 = tensor.empty() : tensor<1x3x3x4xf32>
    %4 = linalg.fill ins(%low : f32) outs(%3 : tensor<1x3x3x4xf32>) -> tensor<1x3x3x4xf32>
    %5 = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%2, %window : tensor<1x7x7x4xf32>, tensor<2x2xf32>) outs(%4 : tensor<1x3x3x4xf32>) -> tensor<1x3x3x4xf32>
    %6 = tensor.collapse_shape %5 [[0, 1, 2], [3]] : tensor<1x3x3x4xf32> into tensor<9x4xf32>
    %7 = tensor.empty() : tensor<4x9xf32>
    %8 = linalg.transpose ins(%6 : tensor<9x4xf32>) outs(%7 : tensor<4x9xf32>) permutation = [1, 0]
    %9 = tensor.empty() : tensor<4xf32>
    %10 = linalg.fill ins(%zero : f32) outs(%9 : tensor<4xf32>) -> tensor<4xf32>
    %11 = linalg.reduce ins(%8 : tensor<4x9xf32>) outs(%10 : tensor<4xf32>) dimensions = [1]
      (%in: f32, %init: f32) {
        %12 = arith.addf %in, %init : f32
        linalg.yield %12 : f32
      }
    %13 = linalg.map ins(%11, %11 : tensor<4xf32>, tensor<4xf32>) outs(%9 : tensor<4xf32>)
      (%lhs: f32, %rhs: f32, %o: f32) {
        %14 = arith.maximumf %lhs, %rhs : f32
        linalg.yield %14 : f32
      }
    return %5, %8, %13 : tensor<1x3x3x4xf32>, tensor<4x9xf32>, tensor<4xf32>
  }
}
