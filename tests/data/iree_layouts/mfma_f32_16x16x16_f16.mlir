// What IREE 3.13 makes of a product with a lowering config: iree-llvmgpu-configure-tensor-layouts.
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#nested = #iree_vector_ext.nested_layout<subgroup_tile = [2, 1], batch_tile = [1, 2], outer_tile = [1, 1], thread_tile = [16, 4], element_tile = [1, 4], subgroup_strides = [1, 0], thread_strides = [1, 16]>
#nested1 = #iree_vector_ext.nested_layout<subgroup_tile = [2, 1], batch_tile = [1, 2], outer_tile = [1, 1], thread_tile = [16, 4], element_tile = [1, 4], subgroup_strides = [2, 0], thread_strides = [1, 16]>
#nested2 = #iree_vector_ext.nested_layout<subgroup_tile = [2, 2], batch_tile = [1, 1], outer_tile = [1, 1], thread_tile = [4, 16], element_tile = [4, 1], subgroup_strides = [1, 2], thread_strides = [16, 1]>
#translation = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [256, 1, 1] subgroup_size = 64>
module {
  func.func @matmul(%arg0: tensor<32x32xf16>, %arg1: tensor<32x32xf16>, %arg2: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {translation_info = #translation} {
    %0 = iree_vector_ext.to_layout %arg0 to layout(#nested) <shared_memory_conversion = #iree_gpu.derived_thread_config> : tensor<32x32xf16>
    %1 = iree_vector_ext.to_layout %arg1 to layout(#nested1) <shared_memory_conversion = #iree_gpu.derived_thread_config> : tensor<32x32xf16>
    %2 = iree_vector_ext.to_layout %arg2 to layout(#nested2) : tensor<32x32xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %1 : tensor<32x32xf16>, tensor<32x32xf16>) outs(%2 : tensor<32x32xf32>) attrs =  {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<MFMA_F32_16x16x16_F16>, promote_operands = [0, 1], subgroup_basis = [[2, 2, 1], [1, 0, 2]]}>} {
    ^bb0(%in: f16, %in_0: f16, %out: f32):
      %5 = arith.extf %in : f16 to f32
      %6 = arith.extf %in_0 : f16 to f32
      %7 = arith.mulf %5, %6 : f32
      %8 = arith.addf %out, %7 : f32
      linalg.yield %8 : f32
    } -> tensor<32x32xf32>
    %4 = iree_vector_ext.to_layout %3 to layout(#nested2) : tensor<32x32xf32>
    return %4 : tensor<32x32xf32>
  }
}
