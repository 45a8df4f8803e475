import numpy as np
import pytest

from tvm_iree_ext.emulator.amd.pseudocode.reading import PseudocodeError, read
from tvm_iree_ext.emulator.amd.pseudocode.translation import PseudocodeSetting, translate


def computed(text, bits=None, known=None, **operands):
    function = translate(text, PseudocodeSetting(bits or {}, known or {}))
    assert set(function.inputs) <= set(operands)
    given = {name: operands[name] for name in function.inputs}
    return dict(zip(function.outputs, function(**given), strict=True))


def words(*numbers):
    return np.array([numbers], np.uint32)


def floats(*numbers):
    return np.array([numbers], np.float32).view(np.uint32)


def test_a_sum_of_floats_is_one_of_their_bits():
    found = computed("D0.f32 = S0.f32 + S1.f32", S0=floats(1, 2), S1=floats(0.5, -2))
    assert found["D0"].view(np.float32).tolist() == [[1.5, 0]]


def test_integers_wrap_and_have_signs_by_their_type():
    text = "D0.i32 = S0.i32 < S1.i32 ? S0.i32 - 1 : S1.i32"
    found = computed(text, S0=words(0x80000000, 5), S1=words(0, 3))
    assert found["D0"].tolist() == [[0x7FFFFFFF, 3]]


def test_a_carry_is_a_mask_of_lanes():
    text = """
        tmp = 64'U(S0.u32) + 64'U(S1.u32);
        VCC.u64[laneId] = tmp >= 0x100000000ULL ? 1'1U : 1'0U;
        D0.u32 = tmp.u32"""
    found = computed(text, S0=words(0xFFFFFFFF, 1), S1=words(1, 1))
    assert found["D0"].tolist() == [[0, 2]]
    assert found["VCC[]"].tolist() == [[True, False]]


def test_lanes_take_their_own_branch():
    text = """
        if S0.u32 == 0U then
        D0.u32 = 7U
        elsif S0.u32 == 1U then
        D0.u32 = S1.u32
        else
        D0.u32 = 9U
        endif"""
    found = computed(text, S0=words(0, 1, 2), S1=words(4, 5, 6), D0=words(0, 0, 0))
    assert found["D0"].tolist() == [[7, 5, 9]]


def test_a_loop_is_left_by_each_lane_alone():
    text = """
        D0.i32 = -1;
        for i in 0 : 31 do
        if S0.u32[i] == 1'1U then
        D0.i32 = i;
        break
        endif
        endfor"""
    found = computed(text, S0=words(8, 0, 1 << 31), D0=words(0, 0, 0))
    assert found["D0"].view(np.int32).tolist() == [[3, -1, 31]]


def test_halves_are_written_apart():
    text = "D0[31 : 16].u16 = S0[15 : 0].u16 + S1[31 : 16].u16"
    found = computed(text, S0=words(3), S1=words(0x00040000), D0=words(0xAAAA5555))
    assert found["D0"].tolist() == [[0x00075555]]


def test_what_is_known_decides_a_branch_when_it_is_translated():
    text = "if OPSEL[3].u32 == 0U then\nD0.u32 = S0.u32\nelse\nD0.u32 = S1.u32\nendif"
    function = translate(text, PseudocodeSetting(known={"OPSEL": 8}))
    assert function.inputs == ("S1",)


@pytest.mark.parametrize("text", ["Wait for all instructions to complete", "if S0 then", "@"])
def test_sentences_are_refused(text):
    with pytest.raises(PseudocodeError):
        read(text)


def test_an_unknown_function_is_refused_by_its_name():
    with pytest.raises(PseudocodeError, match="no function f32_to_snorm"):
        translate("D0.i16 = f32_to_snorm(S0.f32)", PseudocodeSetting())
