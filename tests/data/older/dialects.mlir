// Each function has an older spelling of an operation; newer text has another.
#rows = affine_map<(m, n, k1, k2) -> (m, k1)>

func.func @attention(%q: tensor<2x5x8xf32>, %k: tensor<2x7x8xf32>, %v: tensor<2x7x4xf32>) -> tensor<2x5x4xf32> {
  %s = arith.constant 0.5 : f32
  %o = tensor.empty() : tensor<2x5x4xf32>
  %0 = iree_linalg_ext.attention {
    note = "indexing_maps = [", // {not an attribute}
    indexing_maps = [affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
                     affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
                     affine_map<(b, m, n, k1, k2) -> (b, m, n)>]}
    ins(%q, %k, %v, %s : tensor<2x5x8xf32>, tensor<2x7x8xf32>, tensor<2x7x4xf32>, f32) outs(%o : tensor<2x5x4xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}
func.func @attention_without_scale_map(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>, %v: tensor<7x4xf32>) -> tensor<5x4xf32> {
  %s = arith.constant 0.5 : f32
  %o = tensor.empty() : tensor<5x4xf32>
  %0 = iree_linalg_ext.attention {indexing_maps = [#rows, affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>, affine_map<(m, n, k1, k2) -> (m, n)>]} ins(%q, %k, %v, %s : tensor<5x8xf32>, tensor<7x8xf32>, tensor<7x4xf32>, f32) outs(%o : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
func.func @attention_without_maps(%q: tensor<2x5x8xf32>, %k: tensor<2x7x8xf32>, %v: tensor<2x4x7xf32>) -> tensor<2x5x4xf32> {
  %s = arith.constant 0.5 : f32
  %o = tensor.empty() : tensor<2x5x4xf32>
  %0 = iree_linalg_ext.attention {transpose_v = true} ins(%q, %k, %v, %s : tensor<2x5x8xf32>, tensor<2x7x8xf32>, tensor<2x4x7xf32>, f32) outs(%o : tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}
func.func @attention_generic(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>, %v: tensor<7x4xf32>) -> tensor<5x4xf32> {
  %s = arith.constant 0.5 : f32
  %o = tensor.empty() : tensor<5x4xf32>
  %0 = "iree_linalg_ext.attention"(%q, %k, %v, %s, %o) {indexing_maps = [#rows, affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>, affine_map<(m, n, k1, k2) -> ()>, affine_map<(m, n, k1, k2) -> (m, n)>]} : (tensor<5x8xf32>, tensor<7x8xf32>, tensor<7x4xf32>, f32, tensor<5x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
func.func @fft_generic(%re: tensor<2x2xf32>, %im: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %stage = arith.constant 1 : index
  %0:2 = "iree_linalg_ext.fft"(%stage, %re, %im) {operand_segment_sizes = array<i32: 1, 2>} : (index, tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xf32>
}
func.func @online_attention(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>, %v: tensor<7x4xf32>) -> (tensor<5x4xf32>, tensor<5xf32>, tensor<5xf32>) {
  %s = arith.constant 0.5 : f32
  %o = arith.constant dense<0.0> : tensor<5x4xf32>
  %max = arith.constant dense<-1.0e30> : tensor<5xf32>
  %sum = arith.constant dense<0.0> : tensor<5xf32>
  %0:3 = iree_linalg_ext.online_attention
    {indexing_maps = [#rows, affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>, affine_map<(m, n, k1, k2) -> ()>, affine_map<(m, n, k1, k2) -> (m, n)>, affine_map<(m, n, k1, k2) -> (m)>, affine_map<(m, n, k1, k2) -> (m)>]}
    ins(%q, %k, %v, %s : tensor<5x8xf32>, tensor<7x8xf32>, tensor<7x4xf32>, f32)
    outs(%o, %max, %sum : tensor<5x4xf32>, tensor<5xf32>, tensor<5xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<5x4xf32>, tensor<5xf32>, tensor<5xf32>
  return %0#0, %0#1, %0#2 : tensor<5x4xf32>, tensor<5xf32>, tensor<5xf32>
}
func.func @exp_reduction(%s: tensor<4x9xf32>) -> tensor<4xf32> {
  %m = arith.constant dense<-1.0e30> : tensor<4xf32>
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %0:2 = iree_linalg_ext.exp_reduction {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"], exp_reduced_operands = [1]}
    ins(%s : tensor<4x9xf32>) outs(%m, %z : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%x: f32, %max: f32, %sum: f32):
    %1 = arith.addf %x, %sum : f32
    iree_linalg_ext.yield %max, %1 : f32, f32
  } -> tensor<4xf32>, tensor<4xf32>
  return %0#1 : tensor<4xf32>
}
func.func @sort(%k: tensor<3x6xi32>) -> tensor<3x6xi32> {
  %0 = iree_linalg_ext.sort {dimension = 1 : i64} ins(%k : tensor<3x6xi32>) outs(%k : tensor<3x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sge, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<3x6xi32>
  return %0 : tensor<3x6xi32>
}
func.func @sort_generic(%k: tensor<3x6xi32>) -> tensor<3x6xi32> {
  %0 = "iree_linalg_ext.sort"(%k) ({
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sge, %a, %b : i32
    "iree_linalg_ext.yield"(%c) : (i1) -> ()
  }) {dimension = 1 : i64} : (tensor<3x6xi32>) -> tensor<3x6xi32>
  return %0 : tensor<3x6xi32>
}
func.func @scan(%x: tensor<3x6xi32>) -> tensor<3x6xi32> {
  %o = tensor.empty() : tensor<3x6xi32>
  %t = arith.constant dense<0> : tensor<3xi32>
  %0:2 = iree_linalg_ext.scan {dimension = 1 : i64, inclusive = true} ins(%x : tensor<3x6xi32>) outs(%o, %t : tensor<3x6xi32>, tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    iree_linalg_ext.yield %s : i32
  } -> tensor<3x6xi32>, tensor<3xi32>
  return %0#0 : tensor<3x6xi32>
}
func.func @topk(%x: tensor<3x6xi32>) -> tensor<3x2xi32> {
  %v = arith.constant dense<-2147483648> : tensor<3x2xi32>
  %i = arith.constant dense<2147483647> : tensor<3x2xi32>
  %0:2 = iree_linalg_ext.topk <{dimension = 1}> ins(%x : tensor<3x6xi32>) outs(%v, %i : tensor<3x2xi32>, tensor<3x2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sgt, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<3x2xi32>, tensor<3x2xi32>
  return %0#0 : tensor<3x2xi32>
}
func.func @arg_compare(%x: tensor<3x6xi32>) -> tensor<3xi32> {
  %v = arith.constant dense<-2147483648> : tensor<3xi32>
  %i = arith.constant dense<0> : tensor<3xi32>
  %0:2 = iree_linalg_ext.arg_compare {dimension = 1 : i64} ins(%x : tensor<3x6xi32>) outs(%v, %i : tensor<3xi32>, tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sgt, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<3xi32>, tensor<3xi32>
  return %0#1 : tensor<3xi32>
}
func.func @scatter(%u: tensor<4x6xi32>, %at: tensor<4x1xi32>, %x: tensor<3x6xi32>) -> tensor<3x6xi32> {
  %0 = iree_linalg_ext.scatter {dimension_map = array<i64: 0>, unique_indices = false} ins(%u, %at : tensor<4x6xi32>, tensor<4x1xi32>) outs(%x : tensor<3x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    iree_linalg_ext.yield %s : i32
  } -> tensor<3x6xi32>
  return %0 : tensor<3x6xi32>
}
func.func @scatter_first_dims(%u: tensor<4xi32>, %at: tensor<4x2xi32>, %x: tensor<3x6xi32>) -> tensor<3x6xi32> {
  %0 = iree_linalg_ext.scatter unique_indices(false)
    ins(%u, %at : tensor<4xi32>, tensor<4x2xi32>) outs(%x : tensor<3x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    iree_linalg_ext.yield %s : i32
  } -> tensor<3x6xi32>
  return %0 : tensor<3x6xi32>
}
func.func @scatter_generic(%u: tensor<4x6xi32>, %at: tensor<4x1xi32>, %x: tensor<3x6xi32>) -> tensor<3x6xi32> {
  %0 = "iree_linalg_ext.scatter"(%u, %at, %x) ({
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    "iree_linalg_ext.yield"(%s) : (i32) -> ()
  }) {dimension_map = dense<0> : tensor<1xi64>, unique_indices = false, operand_segment_sizes = dense<[2, 1]> : vector<2xi32>} : (tensor<4x6xi32>, tensor<4x1xi32>, tensor<3x6xi32>) -> tensor<3x6xi32>
  return %0 : tensor<3x6xi32>
}
func.func @gather(%x: tensor<3x6xi32>, %at: tensor<4xi32>) -> tensor<4x6xi32> {
  %o = tensor.empty() : tensor<4x6xi32>
  %0 = iree_linalg_ext.gather {dimension_map = [0]} ins(%x, %at : tensor<3x6xi32>, tensor<4xi32>) outs(%o : tensor<4x6xi32>) -> tensor<4x6xi32>
  return %0 : tensor<4x6xi32>
}
func.func @winograd_input(%a: tensor<1x10x10x2xf32>) -> tensor<8x8x1x2x2x2xf32> {
  %e = tensor.empty() : tensor<8x8x1x2x2x2xf32>
  %0 = iree_linalg_ext.winograd.input_transform {output_tile_size = 6 : i64, kernel_size = 3 : i64, image_dimensions = [1, 2]} ins(%a : tensor<1x10x10x2xf32>) outs(%e : tensor<8x8x1x2x2x2xf32>) -> tensor<8x8x1x2x2x2xf32>
  return %0 : tensor<8x8x1x2x2x2xf32>
}
func.func @winograd_filter(%k: tensor<3x3x2x4xf32>) -> tensor<8x8x2x4xf32> {
  %f = tensor.empty() : tensor<8x8x2x4xf32>
  %0 = iree_linalg_ext.winograd.filter_transform {kernel_dimensions = dense<[0, 1]> : tensor<2xi64>, note = 1, kernel_size = 3 : i64, output_tile_size = 6 : i64} ins(%k : tensor<3x3x2x4xf32>) outs(%f : tensor<8x8x2x4xf32>) -> tensor<8x8x2x4xf32>
  return %0 : tensor<8x8x2x4xf32>
}
func.func @winograd_output(%a: tensor<8x8x1x2x2x2xf32>) -> tensor<1x12x12x2xf32> {
  %g = tensor.empty() : tensor<1x12x12x2xf32>
  %0 = "iree_linalg_ext.winograd.output_transform"(%a, %g) {output_tile_size = 6 : i64, kernel_size = 3 : i64, image_dimensions = [1, 2]} : (tensor<8x8x1x2x2x2xf32>, tensor<1x12x12x2xf32>) -> tensor<1x12x12x2xf32>
  return %0 : tensor<1x12x12x2xf32>
}
func.func @pack(%x: tensor<6x8xf32>) -> tensor<4x2x3x2xf32> {
  %out = tensor.empty() : tensor<4x2x3x2xf32>
  %0 = iree_linalg_ext.pack {note} %x outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [3, 2]
    into %out : (tensor<6x8xf32> tensor<4x2x3x2xf32>) -> tensor<4x2x3x2xf32>
  return %0 : tensor<4x2x3x2xf32>
}
func.func @pack_padded(%x: tensor<5x7xf32>) -> tensor<2x4x3x2xf32> {
  %pad = arith.constant -1.0 : f32
  %out = tensor.empty() : tensor<2x4x3x2xf32>
  %0 = iree_linalg_ext.pack %x padding_value(%pad : f32) inner_dims_pos = [0, 1] inner_tiles = [3, 2] into %out : (tensor<5x7xf32> tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
  return %0 : tensor<2x4x3x2xf32>
}
func.func @unpack(%x: tensor<2x4x3x2xf32>) -> tensor<6x8xf32> {
  %out = tensor.empty() : tensor<6x8xf32>
  %0 = iree_linalg_ext.unpack %x dims_pos = [0, 1] inner_tiles = [3, 2] into %out : (tensor<2x4x3x2xf32> tensor<6x8xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
func.func @pack_generic(%x: tensor<5x7xf32>) -> tensor<2x4x3x2xf32> {
  %pad = arith.constant -1.0 : f32
  %out = tensor.empty() : tensor<2x4x3x2xf32>
  %0 = "iree_linalg_ext.pack"(%x, %out, %pad) {inner_dims_pos = [0, 1], static_inner_tiles = [3, 2], operand_segment_sizes = array<i32: 1, 1, 0, 1>} : (tensor<5x7xf32>, tensor<2x4x3x2xf32>, f32) -> tensor<2x4x3x2xf32>
  return %0 : tensor<2x4x3x2xf32>
}
func.func @pack_of_tensor(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %out = tensor.empty() : tensor<2x4x3x2xf32>
  %whole = tensor.empty() : tensor<6x8xf32>
  %0 = tensor.pack %x inner_dims_pos = [0, 1] inner_tiles = [3, 2] into %out : tensor<6x8xf32> -> tensor<2x4x3x2xf32>
  %1 = tensor.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [3, 2] into %whole : tensor<2x4x3x2xf32> -> tensor<6x8xf32>
  return %1 : tensor<6x8xf32>
}
func.func @im2col_without_strides(%x: tensor<2x6x5x3xf32>) -> tensor<2x12x27xf32> {
  %out = tensor.empty() : tensor<2x12x27xf32>
  %0 = iree_linalg_ext.im2col strides = [1, 1] dilations = [1, 1] kernel_size = [3, 3]
    m_offset = [0] k_offset = [0]
    batch_pos = [0] m_pos = [1, 2] k_pos = [3]
    ins(%x : tensor<2x6x5x3xf32>) outs(%out : tensor<2x12x27xf32>) -> tensor<2x12x27xf32>
  return %0 : tensor<2x12x27xf32>
}
func.func @im2col_of_dims(%x: tensor<2x6x5x3xf32>) -> tensor<2x4x3x9x3xf32> {
  %out = tensor.empty() : tensor<2x4x3x9x3xf32>
  %0 = iree_linalg_ext.im2col {note = 1} strides = [1, 1] dilations = [1, 1] kernel_size = [3, 3]
    m_offset = [0, 0] * [3, 1] k_offset = [0, 0] * [3, 1]
    batch_pos = [0] m_pos = [1, 2] k_pos = [3] input_k_perm = [0, 1, 2]
    ins(%x : tensor<2x6x5x3xf32>) outs(%out : tensor<2x4x3x9x3xf32>) -> tensor<2x4x3x9x3xf32>
  return %0 : tensor<2x4x3x9x3xf32>
}
func.func @transfer_gather(%x: tensor<6x5x4xf32>, %rows: vector<3xindex>) -> vector<3x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pad = arith.constant 0.0 : f32
  %0 = iree_vector_ext.transfer_gather %x[%c1, %c1, %c0] [%rows : vector<3xindex>], %pad {
    indexing_maps = [affine_map<(d0, d1)[s0] -> (0, s0, d1)>,
                     affine_map<(d0, d1)[s0] -> (d0)>]
  } : tensor<6x5x4xf32>, vector<3x4xf32>
  return %0 : vector<3x4xf32>
}
func.func @transfer_gather_of_loops(%x: tensor<6x5x4xf32>, %rows: vector<3xindex>) -> vector<4x3xf32> {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 0.0 : f32
  %0 = iree_vector_ext.transfer_gather %x[%c0, %c0, %c0] [None, %rows: vector<3xindex>, None], %pad {
    indexed_maps = [affine_map<(d0, d1, d2) -> (d1)>], in_bounds = [true, true],
    permutation_map = affine_map<(d0, d1, d2) -> (d2, d1)> } : tensor<6x5x4xf32>, vector<4x3xf32>
  return %0 : vector<4x3xf32>
}
func.func @transfer_gather_masked(%x: tensor<6x4xf32>, %rows: vector<3xindex>, %mask: vector<3x4xi1>) -> vector<3x4xf32> {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 7.0 : f32
  %0 = iree_vector_ext.transfer_gather %x[%c0, %c0] [%rows: vector<3xindex>, None], %pad, %mask {
    indexed_maps = [affine_map<(d0, d1) -> (d0)>], in_bounds = [true, true],
    permutation_map = affine_map<(d0, d1) -> (d0, d1)> } : tensor<6x4xf32>, vector<3x4xf32>, vector<3x4xi1>
  return %0 : vector<3x4xf32>
}
func.func @to_layout(%x: vector<16x16xf32>) -> vector<16x16xf32> {
  %0 = iree_vector_ext.to_layout %x to #iree_vector_ext.nested_layout<subgroups_per_workgroup = [1, 1], batches_per_subgroup = [1, 1], outers_per_batch = [1, 1], threads_per_outer = [4, 16], elements_per_thread = [4, 1], subgroup_strides = [0, 0], thread_strides = [16, 1]> {shared_memory_conversion, mma_kind = #iree_gpu.mma_layout<MFMA_F32_16x16x16_F16>} : vector<16x16xf32>
  return %0 : vector<16x16xf32>
}
func.func @map_scatter(%x: tensor<3x6xi32>) -> tensor<6x3xi32> {
  %o = arith.constant dense<0> : tensor<6x3xi32>
  %0 = iree_linalg_ext.map_scatter %x into %o {
  ^bb0(%i: index, %j: index):
    %mask = arith.constant true
    iree_linalg_ext.yield %j, %i, %mask : index, index, i1
  } : tensor<3x6xi32> into tensor<6x3xi32> -> tensor<6x3xi32>
  return %0 : tensor<6x3xi32>
}
func.func @map_gather(%x: tensor<3x6xi32>) -> tensor<6x3xi32> {
  %o = tensor.empty() : tensor<6x3xi32>
  %0 = iree_linalg_ext.map_gather %x into %o {
  ^bb0(%i: index, %j: index):
    %pad = arith.constant 0 : i32
    iree_linalg_ext.yield %j, %i, %pad : index, index, i32
  } : tensor<3x6xi32> into tensor<6x3xi32> -> tensor<6x3xi32>
  return %0 : tensor<6x3xi32>
}
