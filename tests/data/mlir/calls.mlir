module @calls {
  util.global private @weights = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  util.global private @bias = dense<0.5> : tensor<2xf32>
  func.func private @scaled(%x: tensor<2x2xf32>, %by: f32) -> tensor<2x2xf32> {
    %0 = tensor.empty() : tensor<2x2xf32>
    %1 = linalg.fill ins(%by : f32) outs(%0 : tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = arith.mulf %x, %1 : tensor<2x2xf32>
    return %2 : tensor<2x2xf32>
  }
  util.func public @main$async(%arg0: !hal.buffer_view, %arg1: !hal.fence, %arg2: !hal.fence) -> !hal.buffer_view {
    %two = arith.constant 2.0 : f32
    %0 = hal.tensor.import wait(%arg1) => %arg0 : !hal.buffer_view -> tensor<2x2xf32>
    %weights = util.global.load @weights : tensor<2x2xf32>
    %bias = util.global.load @bias : tensor<2xf32>
    %1 = tensor.empty() : tensor<2x2xf32>
    %2 = linalg.broadcast ins(%bias : tensor<2xf32>) outs(%1 : tensor<2x2xf32>) dimensions = [0]
    %3 = linalg.matmul ins(%0, %weights : tensor<2x2xf32>, tensor<2x2xf32>) outs(%2 : tensor<2x2xf32>) -> tensor<2x2xf32>
    %4 = func.call @scaled(%3, %two) : (tensor<2x2xf32>, f32) -> tensor<2x2xf32>
    %5 = hal.tensor.barrier join(%4 : tensor<2x2xf32>) => %arg2 : !hal.fence
    %6 = hal.tensor.export %5 : tensor<2x2xf32> -> !hal.buffer_view
    util.return %6 : !hal.buffer_view
  }
  util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view {
    %0 = util.null : !hal.fence
    %c-1_i32 = arith.constant -1 : i32
    %c0 = arith.constant 0 : index
    %device_0 = hal.devices.get %c0 : !hal.device
    %fence = hal.fence.create device(%device_0 : !hal.device) flags("None") : !hal.fence
    %1 = util.call @main$async(%arg0, %0, %fence) : (!hal.buffer_view, !hal.fence, !hal.fence) -> !hal.buffer_view
    %status = hal.fence.await until([%fence]) timeout_millis(%c-1_i32) flags("None") : i32
    util.return %1 : !hal.buffer_view
  }
}
