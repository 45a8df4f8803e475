"""Instructions are counted by kind and width, in the kernel and in its hot loop."""

import pytest

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.instruction_counts import count_instructions

ROCM = """
	.text
main_kernel:                            ; @main_kernel
; %bb.0:
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32_e32 v2, 1, v0
	global_load_dwordx4 v[4:7], v2, s[4:5]
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	ds_read_b64 v[12:13], v1
	ds_read2_b32 v[14:15], v1 offset1:8
	ds_write_b128 v1, v[4:7]
	global_load_ushort v9, v4, s[4:5] offset:32
	s_waitcnt lgkmcnt(0)
	s_barrier
	v_mfma_f32_32x32x8_f16 v[0:15], v[12:13], v[14:15], v[0:15]
	v_mfma_f32_4x4x4f16 a[0:3], v[12:13], v[14:15], a[0:3]
	ds_bpermute_b32 v3, v2, v3
	scratch_load_dword v1, off, s0
	s_cbranch_scc1 .LBB0_1
; %bb.2:
	global_store_dword v6, v0, s[2:3]
	s_endpgm
.Lfunc_end0:
other:
	v_mfma_f32_16x16x16_f16 v[0:3], v[12:13], v[2:3], 0
.Lfunc_end1:
"""

CUDA = """
	.section	.text.main_kernel,"ax",@progbits
.text.main_kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128 R4, [R2.64] ;
.L_x_1:
        /*0018*/              @!PT LDS RZ, [RZ] ;
        /*0020*/                   LDSM.16.M88.4 R8, [R9] ;
        /*0030*/                   LDSM.16.MT88.2 R12, [R9] ;
        /*0040*/                   LDGSTS.E.BYPASS.128 [R3], [R4.64] ;
        /*0050*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0060*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/               @P0 BRA `(.L_x_1) ;
        /*0090*/                   UIADD3 UR4, UR4, 0x1, URZ ;
        /*00a0*/                   STG.E.64 [R2.64], R4 ;
        /*00b0*/                   LDG.E.U16 R4, [R2.64] ;
        /*00c0*/                   STL [R1], R4 ;
        /*00d0*/                   EXIT ;
"""


def test_amd():
    counted = count_instructions(ROCM, "rocm", "main_kernel")
    hot = counted.hot_loop
    assert (hot.mma, hot.flops) == (2, 2 * 32 * 32 * 8 + 2 * 4 * 4 * 4 * 16)
    assert hot.loads == {("shared", 8): 2, ("global", 2): 1}
    assert hot.stores == {("shared", 16): 1}
    assert (hot.barriers, hot.waits, hot.shuffles, hot.scratch, hot.control) == (1, 1, 1, 1, 1)
    assert (hot.total, hot.per_mma) == (11, 5.5)
    assert (hot.narrowest("global"), hot.narrowest("shared")) == (2, 8)
    whole = counted.whole
    assert (whole.mma, whole.vector, whole.scalar) == (2, 1, 1)
    assert whole.loads["global", 16] == 1
    assert count_instructions(ROCM, "rocm", "other").hot_loop is None


def test_nvidia():
    counted = count_instructions(CUDA, "cuda", "main_kernel")
    hot = counted.hot_loop
    assert (hot.mma, hot.flops) == (2, 2 * 16 * 8 * 16 + 2 * 64 * 64 * 16)
    assert hot.loads == {("shared", 16): 1, ("shared", 8): 1}
    assert hot.copies == {16: 1}
    assert (hot.barriers, hot.control, hot.total) == (1, 2, 8)
    whole = counted.whole
    assert whole.loads["global", 2] == whole.loads["global", 16] == 1
    assert whole.stores == {("global", 8): 1}
    assert (whole.scalar, whole.scratch) == (2, 1)


TENSOR_MEMORY = """
	.section	.text.main_kernel,"ax",@progbits
.text.main_kernel:
.L_x_0:
        /*0010*/                   UMOV UR24, 0x0 ;
        /*0020*/                   UMOV UR25, 0x8300010 ;
        /*0030*/          UTCHMMA gdesc[UR8], gdesc[UR10], tmem[UR7], tmem[UR24], idesc[UR25], UP0;
        /*0040*/                   UMOV UR25, 0x8400080 ;
        /*0050*/          UTCQMMA gdesc[UR8], gdesc[UR10], tmem[UR7], tmem[UR24], idesc[UR25], UP0;
        /*0060*/                   UTCBAR [UR4], URZ ;
        /*0070*/               @P1 BRA `(.L_x_0) ;
        /*0080*/                   EXIT ;
"""


def test_products_in_tensor_memory_have_the_shapes_of_their_descriptors():
    counted = count_instructions(TENSOR_MEMORY, "cuda", "main_kernel")
    assert counted.hot_loop.mma == 2
    assert counted.hot_loop.flops == 2 * 128 * 192 * 16 + 2 * 128 * 256 * 32


def test_a_product_in_tensor_memory_of_no_known_shape_is_refused():
    text = TENSOR_MEMORY.replace("UMOV UR25", "UMOV UR26")
    with pytest.raises(BuildError, match="UTCHMMA: its shape is not known"):
        count_instructions(text, "cuda", "main_kernel")


RETRY = """
	.section	.text.main_kernel,"ax",@progbits
.text.main_kernel:
.L_x_0:
        /*0010*/              @!P0 BRA `(.L_x_2) ;
.L_x_1:
        /*0020*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0030*/               @P1 BRA `(.L_x_0) ;
        /*0040*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2+URZ], R3 ;
        /*0070*/                   BRA `(.L_x_1) ;
"""


def test_a_jump_back_from_behind_the_code_is_no_loop():
    counted = count_instructions(RETRY, "cuda", "main_kernel")
    assert (counted.whole.mma, counted.hot_loop.mma, counted.hot_loop.total) == (2, 1, 3)


def test_a_kernel_that_is_not_there_is_refused():
    with pytest.raises(BuildError, match="the assembly has no kernel nowhere"):
        count_instructions(ROCM, "rocm", "nowhere")
    with pytest.raises(BuildError, match="the assembly has no kernel nowhere"):
        count_instructions(CUDA, "cuda", "nowhere")
