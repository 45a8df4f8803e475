util.global private mutable @total = dense<[1, 2, 3, 4]> : tensor<4xi32>
util.global private mutable @rows : tensor<3x4xf32>
util.global private mutable @count = 2 : index
func.func @add(%a: tensor<4xi32>) -> tensor<4xi32> {
  %old = util.global.load @total : tensor<4xi32>
  %new = arith.addi %old, %a : tensor<4xi32>
  util.global.store %new, @total : tensor<4xi32>
  return %old : tensor<4xi32>
}
func.func @append(%row: tensor<1x4xf32>, %last: tensor<3x4xf32> {iree.abi.output = 0 : index}) -> tensor<3x4xf32> {
  %count = util.global.load @count : index
  %c1 = arith.constant 1 : index
  %next = arith.addi %count, %c1 : index
  util.global.store %next, @count : index
  %rows = util.global.load @rows : tensor<3x4xf32>
  %new = tensor.insert_slice %row into %rows[1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
  util.global.store %new, @rows : tensor<3x4xf32>
  %sum = arith.addf %rows, %last : tensor<3x4xf32>
  return %sum : tensor<3x4xf32>
}
