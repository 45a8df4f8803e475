import numpy as np
import pytest
from amd_instructions import Machine

pytest.importorskip("tinygrad")

from tinygrad.renderer.amd.dsl import NULL, s, v
from tinygrad.runtime.autogen.amd.cdna import ins as cdna
from tinygrad.runtime.autogen.amd.rdna3 import ins as rdna3

from tvm_iree_ext.emulator.amd.decoding import named_pseudocode
from tvm_iree_ext.emulator.amd.operands import constant
from tvm_iree_ext.emulator.amd.pseudocode.reading import PseudocodeError
from tvm_iree_ext.emulator.amd.pseudocode.translation import PseudocodeSetting, translate
from tvm_iree_ext.emulator.amd.quick_functions import QUICK

WIDE = ("F64", "B64", "U64")
# Where AMD's text is not what the hardware does: see the functions in quick_functions.
DIFFERS = ("V_DIV_FMAS", "V_FRACT", "V_RNDNE", "V_PK_MOV", "V_LDEXP", "V_MBCNT")


def as_floats(bits):
    return bits.view(np.float32)


def pair(registers, first):
    return registers[first].astype(np.uint64) | registers[first + 1].astype(np.uint64) << np.uint64(
        32
    )


def test_a_vector_sum_is_of_the_lanes_that_execute():
    machine = Machine("gfx942", cdna.v_add_f32_e32(v[2], v[0], v[1]))
    machine.waves.scalar[126] = 1
    machine.waves.scalar[127] = 0
    machine.waves.vector[0:2] = np.float32(1.5).view(np.uint32)
    machine.waves.forget_mask()
    before = machine.waves.vector[2].copy()
    waves = machine.run()
    assert as_floats(waves.vector[2, 0, :1]).tolist() == [3]
    np.testing.assert_array_equal(waves.vector[2, 0, 1:], before[0, 1:])


@pytest.mark.parametrize(("number", "value"), [(240, 0.5), (193, None)])
def test_constants_are_of_the_operands_type(number, value):
    if value is None:
        assert constant(number, 64, False, None, False) == (1 << 64) - 1
        return
    for bits, kind in ((16, np.float16), (32, np.float32), (64, np.float64)):
        whole = np.array(constant(number, bits, True, None, False), f"u{bits // 8}")
        assert whole.view(kind) == value


def test_an_inline_float_of_64_bits_is_a_double_for_moves_of_bits_too():
    assert constant(242, 64, False, None, False) == 0x3FF0_0000_0000_0000
    assert constant(242, 32, False, None, False) == 0x3F80_0000


def test_a_packed_operand_takes_the_word_that_is_chosen():
    machine = Machine("gfx942", cdna.v_pk_mul_f32(v[0:1], v[2:3], 0.5, opsel_hi=1))
    machine.waves.vector[2] = np.float32(3).view(np.uint32)
    machine.waves.vector[3] = np.float32(5).view(np.uint32)
    waves = machine.run()
    assert as_floats(waves.vector[0, 0, :1]).tolist() == [1.5]
    assert as_floats(waves.vector[1, 0, :1]).tolist() == [2.5]


def test_products_of_64_bits_have_their_carry():
    machine = Machine("gfx942", cdna.v_mad_u64_u32(v[0:1], s[4:5], v[2], v[3], v[4:5]))
    a, b = (machine.waves.vector[number, 0].astype(object) for number in (2, 3))
    c = pair(machine.waves.vector, 4)[0].astype(object)
    waves = machine.run()
    want = [x * y + z for x, y, z in zip(a, b, c, strict=True)]
    assert pair(waves.vector, 0)[0].tolist() == [one % (1 << 64) for one in want]
    assert waves.lane_mask(4)[0].tolist() == [one >= 1 << 64 for one in want]


def test_lanes_are_permuted_through_dpp():
    # v_mov_b32 v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf
    words = np.array([0x7E0202FA, 0xFF011100], np.uint32)
    machine = Machine("gfx1100", rdna3.VOP1_DPP16.from_bytes(words.tobytes()))
    machine.waves.vector[0] = np.arange(32)
    machine.waves.vector[1] = 99
    waves = machine.run()
    assert waves.vector[1, 0, :18].tolist() == [99, *range(15), 99, 16]


def test_a_load_arrives_at_the_wait_that_covers_it():
    machine = Machine(
        "gfx942",
        cdna.ds_write_b32(addr=v[0], data0=v[1]),
        cdna.ds_read_b32(v[2], v[0]),
        cdna.v_mov_b32_e32(v[3], v[2]),
        cdna.s_waitcnt(0xC07F),  # lgkmcnt(0)
        cdna.v_mov_b32_e32(v[4], v[2]),
    )
    machine.waves.vector[0] = 4 * np.arange(64)
    machine.waves.vector[1] = 7
    waves = machine.run()
    assert (waves.vector[4] == 7).all()
    assert not (waves.vector[3] == 7).any()


def test_an_encoding_without_pseudocode_has_that_of_another():
    """tinygrad's tables have no text of this one in 64 bits, which takes a sign."""
    machine = Machine("gfx942", cdna.v_cvt_f16_f32_e64(v[1], v[0], neg=1))
    machine.waves.vector[0] = np.float32(1.5).view(np.uint32)
    assert (machine.run().vector[1].astype(np.uint16).view(np.float16) == -1.5).all()


@pytest.mark.parametrize(("later", "arrives"), [(14, False), (15, True)])
def test_a_counter_at_its_most_waits_by_itself(later, arrives):
    """CDNA counts to 15 operations of shared memory: the first is done when the 16th begins."""
    machine = Machine(
        "gfx942",
        cdna.ds_write_b32(addr=v[0], data0=v[1]),
        cdna.s_waitcnt(0xC07F),  # lgkmcnt(0)
        cdna.ds_read_b32(v[2], v[0]),
        *(cdna.ds_read_b32(v[3 + number], v[0]) for number in range(later)),
        cdna.v_mov_b32_e32(v[1], v[2]),
    )
    machine.waves.vector[0] = 4 * np.arange(64)
    machine.waves.vector[1] = 7
    waves = machine.run()
    assert (waves.vector[1] == 7).all() == arrives


def test_offsets_in_a_buffer_wrap_at_32_bits():
    """LLVM splits an offset into a lane's, which may be below 0, and the instruction's."""
    load = rdna3.buffer_load_b32(
        vdata=v[2], vaddr=v[0], srsrc=s[4:7], soffset=NULL, offen=1, offset=1024
    )
    machine = Machine("gfx1100", load, rdna3.s_waitcnt(0x3F7))  # vmcnt(0)
    waves = machine.waves
    base = waves.memory.allocate(128)
    waves.memory.write(base, np.arange(32, dtype=np.uint32))
    waves.scalar[4], waves.scalar[5] = base & 0xFFFFFFFF, base >> 32
    waves.scalar[6], waves.scalar[7] = 0xFFFFFFFF, 0x21027000
    waves.vector[0] = (4 * np.arange(32) - 1024).astype(np.uint32)
    assert (machine.run().vector[2] == np.arange(32)).all()


def test_shared_memory_that_nobody_wrote_is_found():
    machine = Machine("gfx942", cdna.ds_read_b32(v[2], v[0]))
    machine.waves.vector[0] = 0
    (finding,) = machine.run().faults.all()
    assert finding.kind == "uninitialised"
    assert finding.count == 64
    assert "ds_read_b32" in finding.instruction


@pytest.mark.parametrize("isa", ["cdna", "rdna3", "rdna4"])
def test_short_functions_compute_what_the_pseudocode_says(isa):
    rng, compared = np.random.default_rng(0), 0
    for name, quick in QUICK.items():
        text = named_pseudocode(isa).get(name)
        if text is None or name.startswith(DIFFERS):
            continue
        try:
            function = translate(text, setting(isa, name))
        except PseudocodeError:
            continue
        operands = {one: random_bits(rng, name, one) for one in quick.inputs}
        kind = np.uint64 if name.endswith(WIDE) else np.uint32
        given = {one: operands.get(one, np.zeros((1, 64), kind)) for one in function.inputs}
        with np.errstate(all="ignore"):
            got, want = quick(**operands), function(**given)
        for one, other in zip(got, want, strict=True):
            mask = 0xFFFF if quick.bits[0] == 16 else (1 << 64) - 1
            assert same_numbers(name, one, other, mask), (isa, name)
        compared += 1
    assert compared > 20


def setting(isa, name):
    wide = name.endswith(WIDE)
    bits = dict.fromkeys(("S0", "S1", "S2", "D0"), 64 if wide else 32)
    if name.startswith("S_"):
        bits["D0"] = 32

    def calls(other):
        return translate(named_pseudocode(isa)[other], PseudocodeSetting(bits, facts, "D0", calls))

    facts = {"WAVE_MODE.IEEE": 1, "OPSEL": 0}
    return PseudocodeSetting(bits, facts, "D0", calls)


def random_bits(rng, name, operand):
    wide = name.endswith(WIDE)
    if operand == "laneId":
        return np.arange(64, dtype=np.uint32)[None]
    kind = {"F16": np.float16, "F32": np.float32, "F64": np.float64}.get(name[-3:])
    if kind is None:
        whole = rng.integers(0, 1 << 63, (1, 64), np.uint64) * np.uint64(2)
        whole[0, :2] = 0, (1 << 64) - 1
        return whole if wide else whole.astype(np.uint32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]
    numbers = rng.permutation(np.concatenate([rng.normal(size=56) * 4, special]))[None].astype(kind)
    whole = numbers.view(f"u{numbers.dtype.itemsize}")
    return whole if wide else whole.astype(np.uint32)


def same_numbers(name, got, want, mask):
    got, want = np.broadcast_arrays(got, want)
    if got.dtype == bool:
        return bool((got == want.astype(bool)).all())
    got, want = got & got.dtype.type(mask & np.iinfo(got.dtype).max), want
    kind = {"F16": np.float16, "F32": np.float32, "F64": np.float64}.get(name[-3:])
    if kind is None:
        return bool((got == want).all())
    width = np.dtype(kind).itemsize
    a, b = (one.astype(f"u{width}").view(kind) for one in (got, want))
    signs = (a != 0) | (np.signbit(a) == np.signbit(b)) | (b != 0)
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all() and signs.all())


def test_halves_of_registers_are_chosen_by_opsel():
    machine = Machine("gfx1100", rdna3.v_mov_b16_e64(v[1], v[0], opsel=1))
    machine.waves.vector[0], machine.waves.vector[1] = 0x11112222, 0x33334444
    assert (machine.run().vector[1] == 0x33331111).all()
