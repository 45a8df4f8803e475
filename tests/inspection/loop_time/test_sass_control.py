"""The compiler's schedule in words that ``nvdisasm -hex`` printed."""

from tvm_iree_ext.codegen.gpu.instruction_counts import hot_loop_text
from tvm_iree_ext.inspection.loop_time.sass_control import Control, control_of_text

# Of ptxas 13: the product of 4096 x 4096 x 4096 in float16, cut to one of each kind.
SASS = """
//--------------------- .text.matmul_kernel --------------------------
	.section	.text.matmul_kernel,"ax",@progbits
.text.matmul_kernel:
.L_x_1:
        /*0a70*/                   IADD3 R53, R70.reuse, 0x100, RZ ;                 /* 0x0000010046357810 */
                                                                                     /* 0x040fe40007ffe0ff */
        /*0b00*/              @!PT LDS RZ, [RZ] ;                                    /* 0x00000000fffff984 */
                                                                                     /* 0x000fe20000000800 */
        /*0b10*/                   LDGSTS.E.BYPASS.128 [R71], [R52.64] ;             /* 0x0000000034477fae */
                                                                                     /* 0x0003e2000b901c44 */
        /*0d40*/                   LDSM.16.M88.2 R160, [R148+0x1b480] ;              /* 0x01b4800094a0783b */
                                                                                     /* 0x000e6e0000000100 */
        /*0d50*/                   HMMA.16816.F32 R40, R68, R160.reuse, R40 ;        /* 0x000000a04428723c */
                                                                                     /* 0x084ff00000001828 */
        /*0d60*/                   HMMA.16816.F32 R4, R60, R160.reuse, R4 ;          /* 0x000000a03c04723c */
                                                                                     /* 0x088ff00000001804 */
        /*1550*/              @!P0 BRA `(.L_x_1) ;                                   /* 0xffffef6000007947 */
                                                                                     /* 0x000fec000383ffff */
        /*1560*/                   EXIT ;                                            /* 0x000000000000794d */
                                                                                     /* 0x000fea0003800000 */
"""  # noqa: E501
HOPPER = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R7 ; /* 0x00000007ff0075a7 */ /* 0x000e240008000145 */"  # noqa: E501


def test_the_hot_loop_has_each_instruction_with_its_word():
    found = {
        text.partition(" ")[0]: control_of_text(text)
        for text in hot_loop_text(SASS, "cuda", "matmul_kernel")
    }
    assert found == {
        "IADD3": Control(2),
        "NOP": Control(1),
        "LDGSTS.E.BYPASS.128": Control(1, read=1),
        "LDSM.16.M88.2": Control(7, written=1),
        "HMMA.16816.F32": Control(8, waits=(3,)),
        "BRA": Control(6),
    }


def test_a_wait_for_a_barrier_in_memory_sets_one_for_its_predicate():
    assert control_of_text(HOPPER) == Control(2, written=0)


def test_without_words_there_is_no_schedule():
    assert control_of_text("HMMA.16816.F32 R4, R60, R160, R4 ;") is None
    assert control_of_text("NOP ; /* 0x0000000000007918 */") is None
